// bert_hpc_prep's work: text → rows → vocabulary → tokens → shards. One to three streaming passes over the text; every
// rank reads all of it (that is cheap) and tokenizes its share. The shards are the same bytes on any number of ranks.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/comm/agreement.hpp"
#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/prep/prep_config.hpp"
#include "bert_hpc/prep/row_stream.hpp"
#include "bert_hpc/prep/row_table.hpp"

namespace bert_hpc::prep {

using comm::AgreedError;

/// Collective. comm::agree(), with what prep can do about too little memory.
void agree(comm::Communicator& group, const std::function<void()>& step);

/// What was thrown, as an error for the user, with what prep can do about too little memory.
core::Error as_error(const std::exception& thrown);

struct SplitSummary {
  std::int64_t sequences = 0, tokens = 0, longest = 0, shards = 0;
  std::int64_t queries = 0, answerable = 0;  ///< of candidates: all, and those with a relevant candidate
};

/// Counts of rows that are kept.
struct TokenCounts {
  std::int64_t text_bytes = 0, tokens = 0, unknown = 0;
  std::int64_t truncated = 0;         ///< rows that lost tokens
  std::int64_t cut_into_windows = 0;  ///< rows of several sequences
};

struct Summary {
  std::int64_t rows = 0;
  std::int64_t skipped_lines = 0;  ///< see RowTable
  TokenCounts tokens;
  std::array<std::int64_t, row_status_count> by_status{};
  std::array<SplitSummary, split_count> splits;
  std::array<AnswerCounts, split_count> answers{};
  std::vector<std::pair<std::string, std::int64_t>> labels, unlisted_labels;  ///< with their rows
  std::array<std::string, row_status_count> first_rejects{};                  ///< see RowTable
  std::int32_t vocabulary_size = 0;
  double seconds = 0, tokenize_seconds = 0;
};

/// The input, completed by settle(), find_sentences() and find_labels(). Throws one Error with all that is wrong with
/// its keys and, where something is, with the files that it names, as far as the one does not follow from the other.
PrepConfig given_config(const std::string& path, const std::vector<std::string>& overrides);

/// Completes the input by what files say: patterns in [source] become the files that they match (what matches nothing
/// stays, and check_files() reports it), and [tokenizer] lowercase, where it is not given, is the vocabulary's own.
/// Throws Error(files) if a file that says so cannot be read.
void settle(PrepConfig& config);

/// Collective over `group`. `config` is settled. `say` gets progress lines on rank 0. Throws AgreedError if all
/// ranks know, Error where this rank alone does (the others must then be aborted). Files in [output] directory change
/// at the very end only.
Summary prepare(const PrepConfig& config, comm::Communicator& group,
                const std::function<void(const std::string&)>& say);

/// If the input names no label column and all rows are for the test split, text without a column "label" has no
/// labels and is prepared to be predicted. `config` is settled. Looks at the first row of each file. Throws nothing:
/// check_files() reports what cannot be read.
void find_labels(PrepConfig& config);

/// Tables of token_classification that all have Kaggle's column "Sentence #" have a word a row: it becomes [source]
/// sentence if the input names none. Otherwise as find_labels().
void find_sentences(PrepConfig& config);

/// What can be checked without reading the text: files open and are there once, columns exist, the vocabulary loads,
/// the directory can be written. prepare() begins with it. Throws one Error with all problems, and the code of the
/// first. Returns warnings.
std::vector<std::string> check_files(const PrepConfig& config);

/// The shards of an earlier run that the results replace, "3 shards of an earlier run in …": how many, and which keys
/// its input gave otherwise; "" if [output] directory holds none. One rank calls it. Throws Error(files).
std::string describe_replaced(const PrepConfig& config);

/// The lines printed at the end.
std::string describe(const Summary& summary, const PrepConfig& config);

}  // namespace bert_hpc::prep
