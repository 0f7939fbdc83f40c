// The rows of a run, built from the journal's lines. New lines and lines replayed after a restart take the same path,
// so that both give the same metrics.h5. Private to io.
//
// For the syntax of lines see metrics_line.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/io/metrics.hpp"

namespace bert_hpc::io::detail {

inline constexpr const char* journal_title = "bert_hpc metrics journal 1";

// One line per record.
std::string encode(const RunInfo& info);
std::string encode(const StepRow& row);
std::string encode(const std::string& split, const EvaluationRow& row);
std::string encode(const EfficiencyRow& row);
std::string encode(const LossScaleRow& row);
std::string encode(const DataRow& row);
std::string encode(const std::vector<TimerRow>& rows);
std::string encode(const std::vector<RankRow>& rows);
std::string encode(const std::vector<MemoryRow>& rows);
std::string encode(const Profile& profile);
struct RankSample;
std::string encode_rank_sample(const RankSample& sample);
std::string encode_status(RunStatus status);
std::string encode_total(const std::string& name, double value);
std::string encode_rewind(std::int64_t step);

struct RankSample {
  double seconds = 0;
  std::vector<double> utilisation, power, memory;  ///< (ranks)
};

struct MetricsTables {
  RunInfo info;
  std::vector<std::string> restarts;  ///< UTC
  std::string status = "running";
  std::vector<StepRow> steps;
  std::map<std::string, std::vector<EvaluationRow>> evaluations;  ///< by split
  std::vector<EfficiencyRow> efficiency;
  std::vector<LossScaleRow> loss_scale;
  std::vector<DataRow> data;
  std::vector<TimerRow> timers;
  std::vector<RankRow> ranks;
  std::vector<MemoryRow> memory;
  std::vector<RankSample> rank_samples;
  Profile profile;
  std::map<std::string, double> totals;
  std::int64_t replaced = 0;  ///< number of evaluations replaced by a repeated one

  /// Applies a line; false if it is invalid.
  bool apply(std::string_view line);

  /// The content of metrics.h5. `path` is for messages.
  std::vector<std::byte> to_hdf5(const std::string& path) const;
};

}  // namespace bert_hpc::io::detail
