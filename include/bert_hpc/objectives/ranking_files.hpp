// The files of a ranking: predictions.h5, predictions.csv, run.trec and predictions.tsv. Memory: a query's candidates.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/data/group_data.hpp"
#include "bert_hpc/io/text_file.hpp"
#include "bert_hpc/objectives/prediction_files.hpp"

namespace bert_hpc::objectives {

/// The last column of run.trec: the name of the run's directory, with "_" for blanks, which separate columns.
std::string run_name(const std::string& directory);

/// DIRECTORY/run.trec, lines "query Q0 document rank score name", as trec_eval reads them. Without close() there is no
/// file. Throws Error(files).
class TrecRun {
 public:
  explicit TrecRun(const std::string& directory);
  /// rank: from 1.
  void add(std::string_view query, std::string_view document, std::int64_t rank, float score);
  void close() { file_.close(); }

 private:
  std::string name_;
  io::TextFile file_;
};

/// DIRECTORY/predictions.h5 (label, prediction, rank) and DIRECTORY/predictions.csv (with ids), a row for each sample;
/// DIRECTORY/run.trec; DIRECTORY/predictions.tsv, lines "query
/// passage rank" with tabs (ms_marco_eval.py), up to the rank 1000 that it takes. A query at a time. Without close()
/// there are no files.
class RankingFiles {
 public:
  /// `facts` and `reader` must outlive it. `hdf5` is held during HDF5 calls. Throws Error(files), as do all functions
  /// below, and Error(data) where the shards are damaged.
  RankingFiles(const PredictionsFacts& facts, const data::ShardReader& reader, std::mutex& hdf5);

  /// The score of the next sample.
  void add(float score);
  void close();

 private:
  void write_query();
  void write_ranks(const std::vector<std::size_t>& order);

  const PredictionsFacts& facts_;
  const data::ShardReader& reader_;
  data::GroupReader groups_;
  std::vector<float> scores_;  // of the query under way
  PredictionTables tables_;
  TrecRun trec_;
  io::TextFile ranks_;
};

}  // namespace bert_hpc::objectives
