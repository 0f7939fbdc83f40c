// Progress of a run: a bar on a terminal, plain lines elsewhere, and plain lines in log.txt either way. The texts are
// pure functions; ProgressDisplay decides when to draw, at most five times a second, one write a time (no flicker).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "bert_hpc/core/log.hpp"

namespace bert_hpc::app {

struct ProgressState {
  std::int64_t step = 0, total_steps = 0;  ///< total 0: unknown
  double epoch = 0;
  double loss = 0, learning_rate = 0;
  double tokens_per_second = 0;
  double seconds = 0;          ///< spent on `new_steps`, evaluations too
  std::int64_t new_steps = 0;  ///< done by this process: a resumed run starts beyond 0
};

enum class ProgressMode { none, lines, bar };

/// For [log] progress: "auto" is a bar on a terminal that can move its cursor (TERM), else lines.
ProgressMode progress_mode(const std::string& setting, bool is_terminal, const std::string& terminal_name);

/// Seconds to go, from the steps done so far; negative: unknown.
double seconds_left(const ProgressState& state);

/// "step 120/4,280, epoch 0.11: loss 2.3456, learning rate 1.2e-04, 45.6 k tokens/s, 2 min 05 s left"
std::string progress_line(const ProgressState& state);

/// A bar in exactly `width` columns or fewer; drops what does not fit, least important first.
std::string progress_bar(const ProgressState& state, int width);

class ProgressDisplay {
 public:
  /// Draws on `log`, which must outlive it. `columns` tells the terminal's width, 0: unknown; it is asked at each
  /// drawing, as windows are resized.
  ProgressDisplay(core::Log& log, ProgressMode mode, std::function<int()> columns);
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  /// After every step; `now` in seconds from any start. Draws the bar when due.
  void step(const ProgressState& state, double now);
  /// Every log.every_steps: the line, to the log file alone where there is a bar.
  void line(const ProgressState& state);
  /// Clears the bar.
  void finish();

 private:
  core::Log& log_;
  ProgressMode mode_;
  std::function<int()> columns_;
  double next_ = 0;
  bool drawn_ = false;
};

}  // namespace bert_hpc::app
