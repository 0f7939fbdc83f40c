// Counts of pairs are kept up to date merge by merge: only the words in which a merged pair stands are looked at. The
// queue may hold outdated counts; an entry is compared with the true count when it comes up, and goes back if it was
// too high.
#include "bert_hpc/tokenize/vocabulary_trainer.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/tokenize/utf8.hpp"
#include "bert_hpc/tokenize/vocabulary.hpp"
#include "bert_hpc/tokenize/wordpiece.hpp"

namespace bert_hpc::tokenize {

namespace {

constexpr std::size_t most_characters = 1000;  // the rest are unknown; WordPieceTrainer's limit

using Pair = std::uint64_t;  // left piece << 32 | right piece

Pair pair_of(std::int32_t left, std::int32_t right) {
  return static_cast<Pair>(left) << 32 | static_cast<std::uint32_t>(right);
}

struct Candidate {
  std::int64_t count;
  Pair pair;
  bool operator<(const Candidate& other) const {  // the queue's top: most frequent, then oldest pieces
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

struct PairState {
  std::int64_t count = 0;
  std::vector<std::int32_t> words;  // where it stands or stood; may name a word twice
};

class Trainer {
 public:
  Trainer(const std::vector<WordCounts::Entry>& words, std::int32_t size) : size_(size) {
    add_characters(words);
    for (const WordCounts::Entry& entry : words) add_word(entry);
  }

  std::vector<std::string> run() {
    for (std::size_t w = 0; w < words_.size(); ++w) count_word(static_cast<std::int32_t>(w));
    for (const auto& [pair, state] : pairs_) queue_.push({state.count, pair});
    while (static_cast<std::int32_t>(pieces_.size()) < size_ && !queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      const std::int64_t count = pairs_[top.pair].count;
      if (count < 1) continue;
      if (count != top.count) {
        queue_.push({count, top.pair});
        continue;
      }
      merge(top.pair);
    }
    return std::move(pieces_);
  }

 private:
  struct TrainingWord {
    std::vector<std::int32_t> pieces;
    std::int64_t count;
  };

  static std::vector<std::string> characters(const std::string& word) {
    std::vector<std::string> all;
    const auto* p = reinterpret_cast<const unsigned char*>(word.data());
    const auto* const end = p + word.size();
    while (p < end) {
      const auto* const start = p;
      decode_utf8(p, end);
      all.emplace_back(reinterpret_cast<const char*>(start), static_cast<std::size_t>(p - start));
    }
    return all;
  }

  void add_characters(const std::vector<WordCounts::Entry>& words) {
    std::map<std::string, std::int64_t> counts;  // UTF-8 sorts as its code points do
    std::set<std::string> inner;
    for (const WordCounts::Entry& entry : words) {
      const std::vector<std::string> all = characters(entry.word);
      for (std::size_t i = 0; i < all.size(); ++i) {
        counts[all[i]] += entry.count;
        if (i > 0) inner.insert(all[i]);
      }
    }
    std::vector<std::pair<std::int64_t, std::string>> by_count;
    for (const auto& [character, count] : counts) by_count.emplace_back(-count, character);
    std::sort(by_count.begin(), by_count.end());
    if (by_count.size() > most_characters) by_count.resize(most_characters);
    std::set<std::string> kept;
    for (const auto& entry : by_count) kept.insert(entry.second);

    for (const char* special : special_token_names) add_piece(special);
    for (const std::string& character : kept) add_piece(character);
    for (const std::string& character : inner) {
      if (kept.contains(character)) add_piece("##" + character);
    }
    if (static_cast<std::int32_t>(pieces_.size()) > size_) {
      throw core::Error(core::ExitCode::data, "The text has " + std::to_string(pieces_.size()) +
                                                  " special tokens and single characters, more than the " +
                                                  std::to_string(size_) +
                                                  " tokens of the vocabulary; raise [tokenizer] train_size.");
    }
  }

  std::int32_t add_piece(const std::string& piece) {
    const auto [place, added] = ids_.try_emplace(piece, static_cast<std::int32_t>(pieces_.size()));
    if (added) pieces_.push_back(piece);
    return place->second;
  }

  /// A character that is not in the vocabulary parts a word; nothing is merged across it.
  void add_word(const WordCounts::Entry& entry) {
    TrainingWord word{{}, entry.count};
    for (const std::string& character : characters(entry.word)) {
      const auto found = ids_.find(word.pieces.empty() ? character : "##" + character);
      word.pieces.push_back(found == ids_.end() ? -1 : found->second);
    }
    words_.push_back(std::move(word));
  }

  void change(std::int32_t left, std::int32_t right, std::int64_t by, std::int32_t word) {
    if (left < 0 || right < 0) return;
    const Pair pair = pair_of(left, right);
    PairState& state = pairs_[pair];
    state.count += by;
    if (by > 0) {
      if (state.words.empty() || state.words.back() != word) state.words.push_back(word);
      touched_.push_back(pair);
    }
  }

  void count_word(std::int32_t w) {
    const TrainingWord& word = words_[static_cast<std::size_t>(w)];
    for (std::size_t i = 0; i + 1 < word.pieces.size(); ++i) {
      change(word.pieces[i], word.pieces[i + 1], word.count, w);
    }
  }

  void merge(Pair pair) {
    const auto left = static_cast<std::int32_t>(pair >> 32), right = static_cast<std::int32_t>(pair & 0xFFFFFFFF);
    const std::string joined = pieces_[static_cast<std::size_t>(left)] +
                               pieces_[static_cast<std::size_t>(right)].substr(2);  // without its "##"
    const std::int32_t merged = add_piece(joined);
    const std::vector<std::int32_t> where = std::move(pairs_[pair].words);
    pairs_.erase(pair);
    touched_.clear();
    for (const std::int32_t w : where) merge_in_word(w, left, right, merged);
    pairs_.erase(pair);
    std::sort(touched_.begin(), touched_.end());
    touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
    for (const Pair grown : touched_) {
      if (const auto found = pairs_.find(grown); found != pairs_.end()) queue_.push({found->second.count, grown});
    }
  }

  void merge_in_word(std::int32_t w, std::int32_t left, std::int32_t right, std::int32_t merged) {
    TrainingWord& word = words_[static_cast<std::size_t>(w)];
    std::vector<std::int32_t>& pieces = word.pieces;
    for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
      if (pieces[i] != left || pieces[i + 1] != right) continue;
      if (i > 0) {
        change(pieces[i - 1], left, -word.count, w);
        change(pieces[i - 1], merged, word.count, w);
      }
      if (i + 2 < pieces.size()) {
        change(right, pieces[i + 2], -word.count, w);
        change(merged, pieces[i + 2], word.count, w);
      }
      pieces[i] = merged;
      pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  }

  std::int32_t size_;
  std::vector<std::string> pieces_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::vector<TrainingWord> words_;
  std::unordered_map<Pair, PairState> pairs_;
  std::priority_queue<Candidate> queue_;
  std::vector<Pair> touched_;  // pairs whose count grew in this merge
};

}  // namespace

WordPieceTrainer::WordPieceTrainer(const TextForm& form)
    : splitter_(form, {std::begin(special_token_names), std::end(special_token_names)}) {}

void WordPieceTrainer::read(std::string_view text, WordNumbers& words, std::vector<std::int32_t>& numbers) {
  constexpr std::int32_t unknown = 1;
  static_assert(special_roles[unknown].id == &SpecialIds::unk);
  splitter_.split(
      text, [&](const Word& word) { numbers.push_back(word.too_long ? unknown : words.number_of(word)); },
      [&](int special, const unsigned char*) { numbers.push_back(special); });
}

TrainedVocabulary WordPieceTrainer::train(const std::vector<WordCounts::Entry>& words, std::int32_t size) const {
  if (words.empty()) {
    throw core::Error(core::ExitCode::data, "The text has no words to train a vocabulary on.");
  }
  return {.vocabulary = Trainer(words, size).run(), .merges = {}};
}

}  // namespace bert_hpc::tokenize
