// The rows of a run, built from the journal's lines: the same way for lines just recorded and for lines replayed after
// a restart, so that both give the same metrics.h5. Private to io.
//
// Lines are spelled as metrics_line.hpp tells.
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
std::string encode(const std::vector<TimerRow>& rows);
std::string encode(const std::vector<RankRow>& rows);
std::string encode_rank_sample(double seconds, const std::vector<double>& utilisation,
                               const std::vector<double>& power);
std::string encode_status(RunStatus status);
std::string encode_total(const std::string& name, double value);
std::string encode_rewind(std::int64_t step);

struct RankSample {
  double seconds = 0;
  std::vector<double> utilisation, power;  ///< (ranks)
};

struct MetricsTables {
  RunInfo info;
  std::vector<std::string> restarts;  ///< UTC
  std::string status = "running";
  std::vector<StepRow> steps;
  std::map<std::string, std::vector<EvaluationRow>> evaluations;  ///< by split
  std::vector<EfficiencyRow> efficiency;
  std::vector<LossScaleRow> loss_scale;
  std::vector<TimerRow> timers;
  std::vector<RankRow> ranks;
  std::vector<RankSample> rank_samples;
  std::map<std::string, double> totals;
  std::int64_t replaced = 0;  ///< evaluations whose place another has taken

  /// Adds what a line says; false if it makes no sense.
  bool apply(std::string_view line);

  /// metrics.h5, whole. `path` serves messages.
  std::vector<std::byte> to_hdf5(const std::string& path) const;
};

}  // namespace bert_hpc::io::detail
