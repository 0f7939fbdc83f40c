// Progress of a run: a bar on a terminal, plain lines elsewhere, and always plain lines in log.txt. The texts are pure
// functions; ProgressDisplay decides when to draw: at most five times a second, with one write each (no flicker).
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
  double seconds_per_step = -1;       ///< recent, without evaluations; negative: unknown
  double growth = 1;                  ///< mean batch of the steps left over that of the latest step
  std::int64_t evaluations_left = 0;  ///< including that of the current step
  double seconds_per_evaluation = 0;  ///< of the latest one
};

/// Recent speed of the steps. The remaining time is computed from it and not from the mean since the start, which
/// reacts to a change of speed too late. Pure: the caller passes the time.
class RecentPace {
 public:
  static constexpr double window_seconds = 30;
  static constexpr std::int64_t window_steps = 20;

  /// Records that `steps` steps took `seconds`, both from any origin. The first call marks the begin of the first step.
  void add(std::int64_t steps, double seconds);
  /// The mean over the last window_seconds, or over the last window_steps if those took longer; over all steps if there
  /// are fewer. Negative: unknown.
  double seconds_per_step() const;

 private:
  struct Mark {
    std::int64_t steps = 0;
    double seconds = 0;
  };
  static constexpr double mark_seconds = 0.25;  // minimum time between two marks, which bounds their number
  std::deque<Mark> marks_;                      // the oldest one begins the window
  Mark latest_;
};

enum class ProgressMode { none, lines, bar };

/// For [log] progress: "auto" is a bar on a terminal that supports cursor movement (TERM), otherwise lines.
ProgressMode progress_mode(const std::string& setting, bool is_terminal, const std::string& terminal_name);

/// Seconds until the last step and its evaluation end; negative: unknown.
double seconds_left(const ProgressState& state);

/// "step 120/4,280, epoch 0.11: loss 2.3456, learning rate 1.2e-04, 45.6 k tokens/s, 2 min 05 s left"
std::string progress_line(const ProgressState& state);

/// A bar of at most `width` columns; drops parts that do not fit, least important first.
std::string progress_bar(const ProgressState& state, int width);

class ProgressDisplay {
 public:
  /// Draws on `log`, which must outlive this object. `columns` returns the terminal's width, 0: unknown; it is called
  /// for each drawing, because windows can be resized.
  ProgressDisplay(core::Log& log, ProgressMode mode, std::function<int()> columns);
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  /// Call it after every step; `now` is in seconds from any origin. Draws the bar when it is due.
  void step(const ProgressState& state, double now);
  /// Call it every log.every_steps: prints the line, only to the log file if there is a bar.
  void line(const ProgressState& state);
  /// Erases the bar.
  void finish();

 private:
  core::Log& log_;
  ProgressMode mode_;
  std::function<int()> columns_;
  double next_ = 0;
  bool drawn_ = false;
};

}  // namespace bert_hpc::app
