// What tokenization makes of each row, on its way to the shards through scratch files. A sequence, of a document a
// line, is the number of its tokens of type 0 if there are pairs, then answer_numbers() of tasks with answers, its ids,
// and the characters of its tokens where predictions are made of it, or the words that its tokens are parts of. Rows
// that predictions are made of may have texts too, in a store of their own.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/prep/answer_rows.hpp"
#include "bert_hpc/prep/prep_config.hpp"
#include "bert_hpc/prep/row_table.hpp"
#include "bert_hpc/prep/token_store.hpp"

namespace bert_hpc::prep {

/// The parts of a sequence of a split as the store has it.
struct StoredParts {
  bool pairs = false, answers = false, characters = false, words = false, texts = false;

  StoredParts(const PrepConfig& config, RowStatus split)
      : pairs(config.has_pairs() && !config.pairs_documents()),
        answers(config.has_answers()),
        characters(answers && split != RowStatus::train),
        words(config.has_words()),
        texts(config.stores_texts() && split != RowStatus::train) {}

  std::int64_t before() const { return (pairs ? 1 : 0) + (answers ? answer_numbers : 0); }
  std::int64_t per_token() const { return characters ? 3 : words ? 2 : 1; }
  std::int64_t tokens(std::int64_t stored) const { return (stored - before()) / per_token(); }
};

/// Texts as one list of numbers, and back.
std::vector<std::int32_t> packed_texts(std::span<const std::string> texts);
std::vector<std::string> unpacked_texts(std::span<const std::int32_t> numbers);

class RowStore {
 public:
  /// `config` must outlive it. Throws Error(files), as add() and open_for_reading().
  RowStore(const PrepConfig& config, std::int64_t vocabulary_size, const std::string& directory,
           comm::Communicator& group);

  /// Call it for this rank's rows, in order. split: the row is kept. answer: of tasks with answers.
  void add(const SourceRow& row, RowStatus split, tokenize::TokenSpan answer, const MadeRow& made);
  /// Collective: after the last of `rows`.
  void open_for_reading(std::int64_t rows);

  const TokenStore& tokens() const { return tokens_; }
  /// What data::RowTextsWriter takes of a row of a split that predictions are made of.
  std::vector<std::string> texts_of(std::int64_t row) const;

 private:
  const PrepConfig& config_;
  comm::Communicator& group_;
  std::array<StoredParts, split_count> parts_;  // by split
  TokenStore tokens_;
  std::optional<TokenStore> texts_;  // of tasks that need them: packed_texts() of each row
  core::NarrowArray counts_, lengths_, text_counts_, text_lengths_;  // counts: up to this rank's last row
  std::vector<std::int32_t> numbers_;
};

}  // namespace bert_hpc::prep
