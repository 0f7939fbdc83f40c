#include "app/report/progress.hpp"

#include <algorithm>
#include <cmath>

#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {

namespace {

constexpr double redraw_seconds = 0.2;
constexpr int usual_columns = 80;
constexpr const char* clear_line = "\r\x1b[K";

std::string steps_text(const ProgressState& state) {
  const std::string step = "step " + core::with_commas(state.step);
  return state.total_steps > 0 ? step + '/' + core::with_commas(state.total_steps) : step;
}

std::string rate_text(const ProgressState& state) {
  return core::format_metric(state.tokens_per_second) + " tokens/s";
}

std::string loss_text(const ProgressState& state) {
  return "loss " + core::format_number(state.loss, 4);
}

std::string left_text(const ProgressState& state) {
  const double left = seconds_left(state);
  return left < 0 ? "" : core::format_duration(left) + " left";
}

}  // namespace

ProgressMode progress_mode(const std::string& setting, bool is_terminal, const std::string& terminal_name) {
  if (setting == "none") return ProgressMode::none;
  if (setting == "lines") return ProgressMode::lines;
  // A file or pipe never gets a bar, even on request: it would be one endless line there.
  return is_terminal && !terminal_name.empty() && terminal_name != "dumb" ? ProgressMode::bar : ProgressMode::lines;
}

double seconds_left(const ProgressState& state) {
  if (state.total_steps < state.step || !(state.seconds_per_step > 0)) return -1;
  return state.seconds_per_step * state.growth * static_cast<double>(state.total_steps - state.step) +
         state.seconds_per_evaluation * static_cast<double>(state.evaluations_left);
}

void RecentPace::add(std::int64_t steps, double seconds) {
  latest_ = {steps, seconds};
  if (marks_.empty() || seconds - marks_.back().seconds >= mark_seconds) marks_.push_back(latest_);
  const auto enough_without_first = [this] {
    return marks_.size() > 1 && latest_.seconds - marks_[1].seconds >= window_seconds &&
           latest_.steps - marks_[1].steps >= window_steps;
  };
  while (enough_without_first()) marks_.pop_front();
}

double RecentPace::seconds_per_step() const {
  if (marks_.empty() || latest_.steps <= marks_.front().steps) return -1;
  return (latest_.seconds - marks_.front().seconds) / static_cast<double>(latest_.steps - marks_.front().steps);
}

std::string progress_line(const ProgressState& state) {
  char epoch[32];
  std::snprintf(epoch, sizeof epoch, "%.2f", state.epoch);
  std::string text = steps_text(state) + ", epoch " + epoch + ": " + loss_text(state) + ", learning rate " +
                     core::format_number(state.learning_rate, 3) + ", " + rate_text(state);
  const std::string left = left_text(state);
  return left.empty() ? text : text + ", " + left;
}

std::string progress_bar(const ProgressState& state, int width) {
  if (width <= 0) return {};
  const double share =
      state.total_steps > 0
          ? std::clamp(static_cast<double>(state.step) / static_cast<double>(state.total_steps), 0.0, 1.0)
          : 0;
  // Everything is ASCII, so bytes are columns.
  char percent[16];
  std::snprintf(percent, sizeof percent, "%3d%%", static_cast<int>(std::floor(share * 100)));
  std::string text = percent;
  constexpr int least_bar = 10, max_bar = 40;
  const int room = width - static_cast<int>(text.size());
  std::string facts;
  for (const std::string& fact : {loss_text(state), left_text(state), rate_text(state), steps_text(state)}) {
    const std::string longer = facts + (facts.empty() ? "  " : ", ") + fact;
    if (!fact.empty() && static_cast<int>(longer.size()) <= room) facts = longer;
  }
  const int bar = std::min(max_bar, room - static_cast<int>(facts.size()) - 3);
  if (bar >= least_bar && state.total_steps > 0) {
    const int full = static_cast<int>(std::floor(share * bar));
    text += " [" + std::string(static_cast<std::size_t>(full), '#') +
            std::string(static_cast<std::size_t>(bar - full), '.') + ']';
  }
  text += facts;
  text.resize(std::min(text.size(), static_cast<std::size_t>(width)));
  return text;
}

ProgressDisplay::ProgressDisplay(core::Log& log, ProgressMode mode, std::function<int()> columns)
    : log_(log), mode_(mode), columns_(std::move(columns)) {}

ProgressDisplay::~ProgressDisplay() {
  finish();
}

void ProgressDisplay::step(const ProgressState& state, double now) {
  if (mode_ != ProgressMode::bar || now < next_) return;
  next_ = now + redraw_seconds;
  // The last column stays free, because some terminals wrap when it is written.
  const int columns = columns_();
  const int width = (columns > 0 ? columns : usual_columns) - 1;
  std::string drawing(1, '\r');
  drawing.append(progress_bar(state, width)).append("\x1b[K");
  log_.console(drawing);
  log_.set_clearing(clear_line);
  drawn_ = true;
}

void ProgressDisplay::line(const ProgressState& state) {
  if (mode_ == ProgressMode::lines) log_.info(progress_line(state));
  if (mode_ == ProgressMode::bar) log_.file_only(progress_line(state));
}

void ProgressDisplay::finish() {
  if (drawn_) log_.console(clear_line);
  log_.set_clearing("");
  drawn_ = false;
}

}  // namespace bert_hpc::app
