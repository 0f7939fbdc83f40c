// Writes a run's rows as TensorBoard curves to RUN/tensorboard. The rows are the source: each time metrics.h5 is
// written, the new rows are appended to the event file. At a start, and when a repeated evaluation replaces an earlier
// one, the file is rebuilt from all rows. So it never holds anything that the rows do not. Private to io.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "event_file.hpp"
#include "metrics_tables.hpp"

namespace bert_hpc::io::detail {

/// Number of rows per table.
struct RowCounts {
  std::size_t steps = 0, loss_scale = 0;
  std::map<std::string, std::size_t> evaluations;  ///< by split
};

/// Encodes the rows after the first `after` ones; `now` is the time of rows without one.
std::string encode_events(const MetricsTables& tables, const RowCounts& after, double now);

class MetricsEvents {
 public:
  explicit MetricsEvents(std::string directory) : directory_(std::move(directory)) {}

  /// Brings the file up to date with all rows. Throws Error(files).
  void follow(const MetricsTables& tables, double now);
  void sync();  ///< forces the file to the disk

 private:
  std::string directory_;
  std::optional<EventFile> file_;
  RowCounts written_;
  std::int64_t replaced_ = 0;  ///< MetricsTables::replaced when the file was made
};

}  // namespace bert_hpc::io::detail
