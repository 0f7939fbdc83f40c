#include "bert_hpc/tokenize/vocabulary_trainer.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/tokenize/utf8.hpp"
#include "bert_hpc/tokenize/vocabulary.hpp"
#include "bert_hpc/tokenize/wordpiece.hpp"
#include "pair_merges.hpp"

namespace bert_hpc::tokenize {

namespace {

constexpr std::size_t most_characters = 1000;  // the rest are unknown; WordPieceTrainer's limit

class Trainer {
 public:
  Trainer(const std::vector<WordCounts::Entry>& words, std::int32_t size) : size_(size) {
    add_characters(words);
    for (const WordCounts::Entry& entry : words) add_word(entry);
  }

  std::vector<std::string> run() {
    merge_pairs(
        std::move(words_), [this] { return static_cast<std::int32_t>(pieces_.size()) < size_; },
        [this](std::int32_t left, std::int32_t right) {
          return add_piece(pieces_[static_cast<std::size_t>(left)] +
                           pieces_[static_cast<std::size_t>(right)].substr(2));  // without its "##"
        });
    return std::move(pieces_);
  }

 private:
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

    for (const char* special : bert_layout().tokens) add_piece(special);
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
    const auto [entry, added] = ids_.try_emplace(piece, static_cast<std::int32_t>(pieces_.size()));
    if (added) pieces_.push_back(piece);
    return entry->second;
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

  std::int32_t size_;
  std::vector<std::string> pieces_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::vector<TrainingWord> words_;
};

}  // namespace

WordPieceTrainer::WordPieceTrainer(const TextForm& form)
    : splitter_(form, {bert_layout().tokens.begin(), bert_layout().tokens.end()}) {}

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
