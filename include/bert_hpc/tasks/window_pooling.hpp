// Outputs of a row of text that was cut into windows, from those of its windows ([task] windows).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::tasks {

enum class WindowPooling {
  mean,   ///< of each output
  max,    ///< of each output; NaN if a window's is
  first,  ///< outputs of the first window
};

inline constexpr const char* windows_key = "windows";
/// The key of the tasks with a prediction for each row.
Key window_pooling_key();
/// The value of a word of the key; mean for "".
WindowPooling window_pooling(std::string_view word);

/// Pools the windows of one row after the other without keeping them.
class WindowPool {
 public:
  WindowPool(WindowPooling kind, std::int64_t outputs)
      : kind_(kind), accumulators_(static_cast<std::size_t>(outputs)) {}

  /// The row's next window. outputs (outputs).
  void add(std::span<const float> outputs);
  std::int64_t windows() const { return windows_; }  ///< of the row so far
  /// Writes the row's outputs (outputs) and begins the next row.
  void finish(std::span<float> outputs);

 private:
  WindowPooling kind_;
  std::vector<double> accumulators_;
  std::int64_t windows_ = 0;
};

}  // namespace bert_hpc::tasks
