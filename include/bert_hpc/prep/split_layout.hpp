// Which sequences a split has, in which order, and how they are cut into shards. Windows of a row are neighbours, and
// so are candidates of a query: of training data in random order of queries, else in the source's order, as scorers
// add. It depends on the seed and the rows alone, never on ranks: every rank computes the same layout and writes its
// share of the shards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bert_hpc/data/label_column.hpp"
#include "bert_hpc/prep/document_pairs.hpp"
#include "bert_hpc/prep/prep_config.hpp"
#include "bert_hpc/prep/row_number.hpp"
#include "bert_hpc/prep/row_store.hpp"
#include "bert_hpc/prep/row_table.hpp"
#include "bert_hpc/prep/sequence_frame.hpp"

namespace bert_hpc::prep {

class SplitLayout {
 public:
  /// `rows` is open for reading and outlives this. `tokenizer` gives the template of packed text.
  SplitLayout(Split split, const PrepConfig& config, const RowTable& table, const RowStore& rows,
              const tokenize::Tokenizer& tokenizer);

  std::int64_t sequences() const { return static_cast<std::int64_t>(order_.size()); }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t queries() const { return queries_; }        ///< of candidates
  std::int64_t answerable() const { return answerable_; }  ///< queries with a relevant candidate
  std::int64_t other_pairs() const;                        ///< pairs of passages of class 1

  struct Shard {
    std::int64_t begin, end;  ///< indices in the order
    std::int64_t tokens;
  };
  const std::vector<Shard>& shards() const { return shards_; }

  struct Sequence {
    std::span<const std::int32_t> ids;        ///< in `stored`
    std::vector<std::int32_t> stored;         ///< as the store has it; of packed text and pairs of passages the ids
    std::vector<std::int32_t> first, second;  ///< passages
    std::vector<std::uint8_t> token_types;    ///< empty unless there are pairs
    data::Label label;
    std::int64_t source_index = 0;
    // For tasks with answers:
    std::int32_t context_begin = 0, context_end = 0;
    std::vector<std::int32_t> characters;  ///< (tokens, 2) where predictions are made
    // For tasks with classes of words:
    std::vector<std::int32_t> words;         ///< (words, 2)
    std::vector<std::int32_t> word_classes;  ///< that the label refers to
    bool starts_row = false;                 ///< where predictions are made: then `texts` are its row's
    std::vector<std::string> texts;
    bool starts_group = false;  ///< the first candidate of its query, or text of its row if each is a sequence

    /// For ShardWriter; valid as long as the sequence.
    data::SequenceParts parts() const {
      return {.context_begin = context_begin,
              .context_end = context_end,
              .words = words,
              .starts_group = starts_group,
              .characters = characters,
              .starts_row = starts_row,
              .texts = texts};
    }
  };
  /// Reads the sequence at `index` of the order; indices ascend from call to call.
  void read(std::int64_t index, Sequence& sequence) const;

  /// Tokens of the sequence at `index`.
  std::int64_t length(std::int64_t index) const;

 private:
  static constexpr std::int64_t stride = 64;  // of starts_

  /// Index of the sequence of a row that is one sequence in the store.
  std::int64_t only_sequence(std::int64_t row) const { return store_.sequences_of(row).begin; }
  struct Stored {
    std::int64_t sequence, row;  ///< numbers in the store
  };
  Stored stored(std::int64_t index) const;
  std::vector<RowNumber> sequences_of(const std::vector<RowNumber>& rows) const;
  std::vector<RowNumber> packed_sequences(std::vector<RowNumber> rows);
  void cut(std::int64_t shard_tokens);
  void order_queries(std::vector<RowNumber>& rows, const PrepConfig& config, bool shuffles);
  bool ends_unit(std::int64_t index) const;
  std::uint64_t query_at(std::int64_t index) const;
  void read_packed(std::int64_t number, Sequence& sequence) const;
  std::vector<RowNumber> paired_passages(const std::vector<RowNumber>& rows, const PrepConfig& config, Split split);
  void read_pair(const DocumentPair& pair, Sequence& sequence) const;
  void read_passage(const Passage& passage, std::vector<std::int32_t>& ids) const;

  void take_words(std::span<const std::int32_t> numbers, Sequence& sequence) const;
  void take_answer(std::span<const std::int32_t> numbers, Sequence& sequence) const;
  void take_candidate(std::int64_t index, Sequence& sequence) const;

  const RowTable& table_;
  const RowStore& row_store_;
  const TokenStore& store_;
  StoredParts parts_;
  bool packs_, pairs_documents_, ranks_, parts_texts_;
  SequenceFrame frame_;  // around packed text, or around pairs of passages
  std::int64_t room_;    // tokens of packed text, or of both passages, in a sequence
  // Packed:
  std::vector<RowNumber> rows_;       // the split's rows as they come
  std::vector<std::int64_t> starts_;  // tokens before every stride-th of them
  std::int64_t packed_tokens_ = 0;    // of all of them
  std::vector<DocumentPair> pairs_;   // of documents
  bool by_row_ = false;               // neither: each row is one sequence
  std::vector<RowNumber> order_;      // by index: the packed sequence, or pair, or row, or else sequence in the store
  std::int64_t tokens_ = 0, queries_ = 0, answerable_ = 0;
  std::vector<Shard> shards_;
};

}  // namespace bert_hpc::prep
