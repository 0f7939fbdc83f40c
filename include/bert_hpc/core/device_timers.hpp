// Time that the device spends on each section of a step. On CUDA builds, events in the stream of kernels measure the
// GPU's own time; the host's clock would measure only the launches. On CPU builds kernels run in the calling thread, so
// the host's clock is right.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "bert_hpc/core/timers.hpp"

namespace bert_hpc::core {

/// A mark in the order of kernels, with the time at which the device reaches it.
class TimedMark {
 public:
  TimedMark() = default;
  TimedMark(const TimedMark&) = delete;
  TimedMark& operator=(const TimedMark&) = delete;
  ~TimedMark();
  void set();  ///< after everything started so far; does not wait
  /// Seconds between two marks, both set. Waits until the device reaches this one.
  double seconds_since(const TimedMark& earlier) const;

 private:
  void* event_ = nullptr;
  double seconds_ = 0;
};

class DeviceTimers {
 public:
  /// `max_laps` = 0 switches it off: each call then costs one comparison. Otherwise the constructor creates all marks.
  explicit DeviceTimers(std::size_t max_laps) : marks_(max_laps == 0 ? 0 : max_laps + 1), names_(max_laps) {}

  bool is_on() const { return !names_.empty(); }

  /// Begins the first section. Discards laps that were not collected.
  void start() {
    laps_ = 0;
    if (is_on()) marks_[0].set();
  }
  /// Ends the section `name` (a string literal) and begins the next. At most max_laps calls after start().
  void lap(std::string_view name) {
    if (laps_ == names_.size()) return;
    names_[laps_] = name;
    marks_[++laps_].set();
  }
  /// Waits for the device and adds the laps since start() to their sections.
  void collect() {
    for (std::size_t i = 0; i < laps_; ++i) add(names_[i], marks_[i + 1].seconds_since(marks_[i]));
    laps_ = 0;
  }
  void clear() { sections_.clear(); }

  /// In the order of first use.
  const std::vector<Timers::Section>& sections() const { return sections_; }

 private:
  void add(std::string_view name, double seconds) {
    Timers::Section* found = nullptr;
    for (Timers::Section& section : sections_) {
      if (section.name == name) found = &section;
    }
    if (found == nullptr) found = &sections_.emplace_back(Timers::Section{name});
    ++found->calls;
    found->seconds += seconds;
  }

  std::vector<TimedMark> marks_;
  std::vector<std::string_view> names_;
  std::size_t laps_ = 0;
  std::vector<Timers::Section> sections_;
};

}  // namespace bert_hpc::core
