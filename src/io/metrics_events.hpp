// A run's rows as the curves that TensorBoard shows, in RUN/tensorboard. The rows are the source: each time metrics.h5
// is made, the event file gets those that it does not have yet; at a start, and where an evaluation has taken another's
// place, the file is made anew from all of them. So it never holds what the rows do not. Private to io.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "event_file.hpp"
#include "metrics_tables.hpp"

namespace bert_hpc::io::detail {

/// How many rows of each table.
struct RowCounts {
  std::size_t steps = 0, loss_scale = 0;
  std::map<std::string, std::size_t> evaluations;  ///< by split
};

/// The records of the rows after the first so many; `now` is the time of rows that lack one.
std::string encode_events(const MetricsTables& tables, const RowCounts& after, double now);

class MetricsEvents {
 public:
  explicit MetricsEvents(std::string directory) : directory_(std::move(directory)) {}

  /// The file holds all rows afterwards. Throws Error(files).
  void follow(const MetricsTables& tables, double now);
  void sync();  ///< forces the file to the disk

 private:
  std::string directory_;
  std::optional<EventFile> file_;
  RowCounts written_;
  std::int64_t replaced_ = 0;  ///< MetricsTables::replaced when the file was made
};

}  // namespace bert_hpc::io::detail
