#include "bert_hpc/prep/document_pairs.hpp"

#include <algorithm>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/rng.hpp"

namespace bert_hpc::prep {
namespace {

/// Random numbers of one document.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t document) : state_(core::mix64(core::mix64(seed) + document)) {}

  /// Uniform in [0, n). The upper half of a product maps 32 bits evenly.
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>((bits() >> 32) * static_cast<std::uint64_t>(n) >> 32);
  }
  bool with_probability(double p) { return static_cast<double>(bits() >> 11) * 0x1p-53 < p; }

 private:
  std::uint64_t bits() { return core::mix64(state_++); }

  std::uint64_t state_;
};

class PairMaker {
 public:
  PairMaker(const std::vector<Document>& documents, const PairOptions& options,
            const std::function<std::int64_t(RowNumber)>& length)
      : documents_(documents), options_(options), length_(length) {
    core::require(options.room >= 2, "a pair has room for two tokens");
  }

  std::vector<DocumentPair> run() {
    for (std::size_t d = 0; d < documents_.size(); ++d) add_document(d);
    return std::move(pairs_);
  }

 private:
  void add_document(std::size_t number) {
    Draws draws(options_.seed, number);
    const Document& document = documents_[number];
    std::int64_t target = options_.room;
    if (draws.with_probability(options_.short_probability)) target = 2 + draws.below(options_.room - 1);
    RowNumber begin = document.begin;
    std::int64_t tokens = 0;
    for (RowNumber unit = document.begin; unit != document.end; ++unit) {
      tokens += length_(unit);
      if (tokens < target && unit + 1 != document.end) continue;
      const RowNumber used = add_pair(number, {begin, unit + 1}, target, draws);
      unit = used - 1;
      begin = used;
      tokens = 0;
    }
  }

  std::int64_t tokens_of(RowNumber begin, RowNumber end) const {
    std::int64_t tokens = 0;
    for (RowNumber unit = begin; unit != end; ++unit) tokens += length_(unit);
    return tokens;
  }

  static Passage passage(RowNumber unit, std::int64_t tokens, std::int64_t skipped = 0) {
    return {unit, static_cast<std::uint32_t>(skipped), static_cast<std::uint32_t>(tokens)};
  }

  /// Makes a pair of units [begin, end) of the document, or of the first of them. Returns the end of the units
  /// that it used.
  RowNumber add_pair(std::size_t number, const Document& units, std::int64_t target, Draws& draws) {
    const bool may_be_other = options_.kind == PairKind::next_sentence && documents_.size() > 1;
    if (units.units() == 1 && !may_be_other) return add_halves(units, draws);
    const RowNumber middle =
        units.units() == 1 ? units.end : units.begin + 1 + static_cast<RowNumber>(draws.below(units.units() - 1));
    DocumentPair pair;
    pair.first = passage(units.begin, tokens_of(units.begin, middle));
    RowNumber used = units.end;
    if (may_be_other && (units.units() == 1 || draws.with_probability(0.5))) {
      pair.second = passage_of_another(number, target - pair.first.tokens, draws);
      pair.other = true;
      used = middle;
    } else {
      pair.second = passage(middle, tokens_of(middle, units.end));
    }
    finish(pair, draws);
    return used;
  }

  /// A unit alone is cut into two texts at a random token.
  RowNumber add_halves(const Document& unit, Draws& draws) {
    const std::int64_t tokens = length_(unit.begin);
    if (tokens < 2) return unit.end;
    const std::int64_t cut = 1 + draws.below(tokens - 1);
    DocumentPair pair;
    pair.first = passage(unit.begin, cut);
    pair.second = passage(unit.begin, tokens - cut, cut);
    finish(pair, draws);
    return unit.end;
  }

  /// Units from a random one on, until they have `wanted` tokens or the document ends: one at least.
  Passage passage_of_another(std::size_t number, std::int64_t wanted, Draws& draws) {
    auto other = static_cast<std::size_t>(draws.below(std::ssize(documents_) - 1));
    if (other >= number) ++other;
    const Document& document = documents_[other];
    const RowNumber begin = document.begin + static_cast<RowNumber>(draws.below(document.units()));
    std::int64_t tokens = length_(begin);
    for (RowNumber unit = begin + 1; unit != document.end && tokens < wanted; ++unit) tokens += length_(unit);
    return passage(begin, tokens);
  }

  void finish(DocumentPair& pair, Draws& draws) {
    truncate(pair, draws);
    if (options_.kind == PairKind::sentence_order && draws.with_probability(0.5)) {
      std::swap(pair.first, pair.second);
      pair.other = true;
    }
    pairs_.push_back(pair);
  }

  /// Each token that is left out is one of the longer text, the second of equally long ones, from its begin or its end.
  void truncate(DocumentPair& pair, Draws& draws) const {
    while (static_cast<std::int64_t>(pair.first.tokens) + pair.second.tokens > options_.room) {
      Passage& longer = pair.first.tokens > pair.second.tokens ? pair.first : pair.second;
      --longer.tokens;
      if (draws.with_probability(0.5)) ++longer.skipped;
    }
  }

  const std::vector<Document>& documents_;
  const PairOptions& options_;
  const std::function<std::int64_t(RowNumber)>& length_;
  std::vector<DocumentPair> pairs_;
};

}  // namespace

std::vector<std::string> class_names(PairKind kind) {
  return kind == PairKind::next_sentence ? std::vector<std::string>{"next", "other"}
                                         : std::vector<std::string>{"in_order", "swapped"};
}

std::vector<DocumentPair> pairs_of(const std::vector<Document>& documents, const PairOptions& options,
                                   const std::function<std::int64_t(RowNumber)>& length) {
  return PairMaker(documents, options, length).run();
}

}  // namespace bert_hpc::prep
