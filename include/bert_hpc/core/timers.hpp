// Wall-clock timers of named sections. A section costs two clock reads and a short search (under 100 ns), so the step
// loop may use it. The sections are plain data that can be reduced over ranks. On request each measurement is also
// recorded as a span, for traces, and taken by the device's clock. An attached profiler sees each measurement as a
// range.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "bert_hpc/core/activity.hpp"
#include "bert_hpc/core/call_count.hpp"
#include "bert_hpc/core/device_timers.hpp"
#include "bert_hpc/core/profiler_range.hpp"

namespace bert_hpc::core {

class Timers {
 public:
  using Clock = std::chrono::steady_clock;

  struct Section {
    std::string_view name;  ///< a string literal
    std::int64_t calls = 0;
    double seconds = 0;  ///< by the host's clock
    /// By the device's clock: between the section's begin and end in the order of kernels, idle time included. NaN
    /// without such a clock.
    double device_seconds = std::numeric_limits<double>::quiet_NaN();

    /// Time in which the section's work was done: the device's where it is known.
    double work_seconds() const { return std::isnan(device_seconds) ? seconds : device_seconds; }
  };

  /// One measurement.
  struct Span {
    std::string_view name;  ///< a string literal
    Clock::time_point begin, end;
  };

  /// Measures from construction to destruction.
  class Scope {
   public:
    Scope(Timers& timers, std::size_t section) : timers_(timers), section_(section), begin_(Clock::now()) {
      begin_profiler_range(timers.sections_[section].name.data());
      if (call_observer != nullptr) counted_before_ = call_observer->enter(timers.sections_[section].name);
      if (timers.activity_ != nullptr) before_ = timers.activity_->enter(timers.sections_[section].name.data());
      if (timers.laps_) lap_ = timers.laps_->begin(section);
    }
    ~Scope() {
      if (lap_) timers_.laps_->end(*lap_);
      end_profiler_range();
      if (call_observer != nullptr) call_observer->enter(counted_before_);
      if (timers_.activity_ != nullptr) timers_.activity_->enter(before_);
      Section& section = timers_.sections_[section_];
      const Clock::time_point end = Clock::now();
      ++section.calls;
      section.seconds += std::chrono::duration<double>(end - begin_).count();
      // Stays within the capacity: the step loop does not allocate.
      if (std::vector<Span>* spans = timers_.spans_; spans != nullptr && spans->size() < spans->capacity()) {
        spans->push_back({section.name, begin_, end});
      }
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Timers& timers_;
    std::size_t section_;
    Clock::time_point begin_;
    const char* before_ = nullptr;
    std::string_view counted_before_;
    std::optional<std::size_t> lap_;
  };

  Timers() = default;
  /// Also reports sections to `activity`, which must outlive this object.
  explicit Timers(Activity& activity) : activity_(&activity) {}
  Timers(const Timers&) = delete;
  Timers& operator=(const Timers&) = delete;

  /// `name` is a string literal. Sections appear in the order of first use.
  [[nodiscard]] Scope measure(std::string_view name) { return Scope(*this, find(name)); }

  /// None if `skipped`.
  [[nodiscard]] std::optional<Scope> measure_unless(bool skipped, std::string_view name) {
    return skipped ? std::nullopt : std::optional<Scope>(std::in_place, *this, find(name));
  }

  const std::vector<Section>& sections() const { return sections_; }

  /// Also measures by the device's clock from now on. `laps`: most measurements between two calls of collect();
  /// `clock` has 2 · laps marks.
  void use_device_clock(std::unique_ptr<DeviceClock> clock, std::size_t laps) {
    for (Section& section : sections_) section.device_seconds = 0;
    laps_.emplace(std::move(clock), laps,
                  [this](std::size_t section, double seconds) { sections_[section].device_seconds += seconds; });
  }
  bool has_device_clock() const { return laps_.has_value(); }

  /// Adds the device's times that are known by now. Does not wait. Call it once in a step, after a wait for the device.
  void collect() {
    if (laps_) laps_->collect();
  }
  /// Waits for the device and adds the times of all measurements that have ended.
  void finish() {
    if (laps_) laps_->finish();
  }
  /// Forgets all times but keeps the clock. Not within a measurement.
  void clear() {
    finish();
    for (Section& section : sections_) section = new_section(section.name);
  }

  /// Appends each following measurement to `into` while its capacity suffices; null stops recording.
  void record(std::vector<Span>* into) { spans_ = into; }

 private:
  std::size_t find(std::string_view name) {
    for (std::size_t i = 0; i < sections_.size(); ++i) {
      if (sections_[i].name == name) return i;
    }
    sections_.push_back(new_section(name));
    return sections_.size() - 1;
  }
  Section new_section(std::string_view name) const {
    Section section{.name = name};
    if (laps_) section.device_seconds = 0;
    return section;
  }

  std::vector<Section> sections_;
  std::vector<Span>* spans_ = nullptr;
  std::optional<DeviceLaps> laps_;
  Activity* activity_ = nullptr;
};

}  // namespace bert_hpc::core
