// From rows to sequences: each rank tokenizes its rows into a store, rank 0 lists those that are rejected and those
// with notes. Internal to the module.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/prep/prepare.hpp"
#include "bert_hpc/prep/row_store.hpp"
#include "bert_hpc/prep/row_stream.hpp"
#include "bert_hpc/prep/row_table.hpp"
#include "bert_hpc/prep/sequence_maker.hpp"
#include "bert_hpc/tokenize/tokenizer.hpp"
#include "row_list.hpp"
#include "staging.hpp"

namespace bert_hpc::prep {

/// Does what becomes of a row depend on the row alone? Then it can be tokenized as scan_rows() judges it: no filter
/// rejects it by what the other rows are, and no split keeps more of it than another.
bool rows_are_independent(const PrepConfig& config);

class RowTokenizer {
 public:
  /// All must outlive it. Throws Error(files), as add() and finish() do.
  RowTokenizer(const PrepConfig& config, const tokenize::Tokenizer& tokenizer, const Staging& staging,
               comm::Communicator& group);

  /// Of every row of the source, in order. file: its path. answer: of tasks with answers.
  void add(const SourceRow& row, RowStatus status, const std::string& file, tokenize::TokenSpan answer);
  /// Collective: after the last of `rows`. Returns the store, open for reading.
  std::unique_ptr<RowStore> finish(std::int64_t rows);

  const TokenCounts& counts() const { return counts_; }  ///< after finish() of all ranks

 private:
  const PrepConfig& config_;
  const Staging& staging_;
  comm::Communicator& group_;
  std::unique_ptr<RowStore> store_;
  SequenceMaker maker_;
  const std::int32_t unknown_;
  MadeRow made_;
  TokenCounts counts_;
  std::optional<RowList> rejects_, notes_;  // rank 0
};

}  // namespace bert_hpc::prep
