// Rows whose words are known by number before there is a vocabulary: words are counted, and later become tokens,
// without reading the text again. Internal to the module.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/prep/prep_config.hpp"
#include "bert_hpc/prep/row_table.hpp"
#include "bert_hpc/prep/word_spool.hpp"
#include "bert_hpc/tokenize/vocabulary_trainer.hpp"
#include "prompts.hpp"
#include "row_tokenizer.hpp"
#include "staging.hpp"

namespace bert_hpc::prep {

class NumberedRows {
 public:
  /// Requires rows_are_independent(). The group must outlive it. Throws Error(files), as all functions.
  NumberedRows(const PrepConfig& config, const Staging& staging, comm::Communicator& group);

  /// Call it for every row of the source, in order. Rows that are not kept, or are another rank's, are left out.
  void add(const SourceRow& row, RowStatus status);
  /// The words of this rank's rows, which `table` has all: those of the training split, if there are any.
  tokenize::WordCounts& count(const RowTable& table);
  /// Gives them to `rows`.
  void tokenize(const RowTable& table, const tokenize::Tokenizer& tokenizer, RowTokenizer& rows);

 private:
  void read_negatives();
  template <class Visit>
  void each(const RowTable& table, const Visit& visit);

  comm::Communicator& group_;
  const bool pairs_, has_negatives_;
  Prompts prompts_;
  std::unique_ptr<tokenize::VocabularyTrainer> trainer_;
  tokenize::WordCounts counts_;
  WordSpool spool_;
  std::int64_t text_bytes_ = 0;
  std::vector<std::int32_t> numbers_, pair_numbers_;
  std::vector<std::vector<std::int32_t>> negatives_;
  std::vector<std::int32_t> count_;  // one element: of negatives_
};

}  // namespace bert_hpc::prep
