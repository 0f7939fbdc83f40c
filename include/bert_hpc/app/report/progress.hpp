// Progress of a run: a bar on a terminal, plain lines elsewhere, and plain lines in log.txt either way. The texts are
// pure functions; ProgressDisplay decides when to draw, at most five times a second, one write a time (no flicker).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "bert_hpc/core/log.hpp"

namespace bert_hpc::app {

struct ProgressState {
  std::int64_t step = 0, total_steps = 0;  ///< total 0: unknown
  double epoch = 0;
  double loss = 0, learning_rate = 0;
  double tokens_per_second = 0;
  double seconds_per_step = -1;       ///< of late, without evaluations; negative: unknown
  std::int64_t evaluations_left = 0;  ///< that of the current step included
  double seconds_per_evaluation = 0;  ///< of the latest one
};

/// How fast steps are at present. The time left follows from this and not from the mean since the start, which a change
/// of speed moves too late. Pure: the caller says what time it is.
class RecentPace {
 public:
  static constexpr double window_seconds = 30;
  static constexpr std::int64_t window_steps = 20;

  /// After `steps` steps that took `seconds`, both from any origin. The first call is the begin of the first step.
  void add(std::int64_t steps, double seconds);
  /// The mean over the last window_seconds, or over the last window_steps where those took longer; over all steps where
  /// there are fewer. Negative: unknown.
  double seconds_per_step() const;

 private:
  struct Mark {
    std::int64_t steps = 0;
    double seconds = 0;
  };
  static constexpr double mark_seconds = 0.25;  // between two marks at least, which bounds how many there are
  std::deque<Mark> marks_;                      // the oldest begins the window
  Mark latest_;
};

/// Evaluations from step `done`, that of this step included, to the end: one every `interval` steps and one at the end.
std::int64_t evaluations_left(std::int64_t done, std::int64_t total, std::int64_t interval);

enum class ProgressMode { none, lines, bar };

/// For [log] progress: "auto" is a bar on a terminal that can move its cursor (TERM), else lines.
ProgressMode progress_mode(const std::string& setting, bool is_terminal, const std::string& terminal_name);

/// Seconds until the last step and its evaluation are done; negative: unknown.
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
