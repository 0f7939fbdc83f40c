// How long the device works on each section of a step. On CUDA builds, events in the stream of kernels measure the
// GPU's own time; a host's clock would measure how long launching takes. On CPU builds kernels run in the caller, so
// its clock serves.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "bert_hpc/core/timers.hpp"

namespace bert_hpc::core {

/// A place in the order of kernels, with the time at which the device reaches it.
class TimedMark {
 public:
  TimedMark() = default;
  TimedMark(const TimedMark&) = delete;
  TimedMark& operator=(const TimedMark&) = delete;
  ~TimedMark();
  void set();  ///< after all that was started so far; does not wait
  /// Seconds between two marks that are set. Waits until the device reaches this one.
  double seconds_since(const TimedMark& earlier) const;

 private:
  void* event_ = nullptr;
  double seconds_ = 0;
};

class DeviceTimers {
 public:
  /// Off with 0 laps: then each call costs one comparison. Otherwise all marks are made at once.
  explicit DeviceTimers(std::size_t most_laps) : marks_(most_laps == 0 ? 0 : most_laps + 1), names_(most_laps) {}

  bool is_on() const { return !names_.empty(); }

  /// The first section begins here. Laps that were not collected are discarded.
  void start() {
    laps_ = 0;
    if (is_on()) marks_[0].set();
  }
  /// The section `name` (a string literal) ends here and the next one begins. No more than most_laps after a start.
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

  /// In the order of their first use.
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
