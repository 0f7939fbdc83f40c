// From rows to sequences: each rank tokenizes its rows into a store, rank 0 lists those that are rejected and those
// with notes. Internal to the module.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/prep/row_store.hpp"
#include "bert_hpc/prep/row_stream.hpp"
#include "bert_hpc/prep/row_table.hpp"
#include "bert_hpc/prep/sequence_maker.hpp"
#include "bert_hpc/prep/summary.hpp"
#include "bert_hpc/tokenize/tokenizer.hpp"
#include "prompts.hpp"

namespace bert_hpc::prep {

/// Whether a row's status depends on the row alone, so that it can be tokenized when scan_rows() reads it: no filter
/// looks at other rows, and all splits keep the same of it.
bool rows_are_independent(const PrepConfig& config);

class RowTokenizer {
 public:
  /// All must outlive it. Throws Error(files), as add() and finish() do.
  RowTokenizer(const PrepConfig& config, const tokenize::Tokenizer& tokenizer, const std::string& directory,
               comm::Communicator& group);

  /// Call it for every row of the source, in order. Rows that are not kept, or are another rank's, are left out.
  /// answer: of tasks with answers.
  void add(const SourceRow& row, RowStatus status, tokenize::TokenSpan answer);
  /// The same of a row of this rank that is kept, of a task without answers and words, by the ids of its texts.
  void add_ids(std::int64_t row, RowStatus split, std::vector<std::int32_t>& ids, std::vector<std::int32_t>& pair_ids,
               std::span<std::vector<std::int32_t>> negatives);
  /// Counts the texts of rows that were added by their ids.
  void count_text(std::int64_t bytes) { counts_.text_bytes += bytes; }
  /// Collective: after the last of `rows`. Returns the store, open for reading.
  std::unique_ptr<RowStore> finish(std::int64_t rows);

  const TokenCounts& counts() const { return counts_; }  ///< after finish() of all ranks

 private:
  void count();

  comm::Communicator& group_;
  std::unique_ptr<RowStore> store_;
  SequenceMaker maker_;
  Prompts prompts_;
  const bool cuts_windows_;
  const std::int32_t unknown_;
  MadeRow made_;
  TokenCounts counts_;
};

}  // namespace bert_hpc::prep
