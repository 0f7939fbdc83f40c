// Wall-clock timers of named sections. A section costs two clock reads and a short search (under 100 ns), so the step
// loop may use it. The sections are plain data that can be reduced over ranks. On request each measurement is also
// recorded as a span, for traces. An attached profiler sees each measurement as a range.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bert_hpc/core/activity.hpp"
#include "bert_hpc/core/call_count.hpp"
#include "bert_hpc/core/profiler_range.hpp"

namespace bert_hpc::core {

class Timers {
 public:
  using Clock = std::chrono::steady_clock;

  struct Section {
    std::string_view name;  ///< a string literal
    std::int64_t calls = 0;
    double seconds = 0;
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
    }
    ~Scope() {
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
  };

  Timers() = default;
  /// Also reports sections to `activity`, which must outlive this object.
  explicit Timers(Activity& activity) : activity_(&activity) {}

  /// `name` is a string literal. Sections appear in the order of first use.
  [[nodiscard]] Scope measure(std::string_view name) { return Scope(*this, find(name)); }

  const std::vector<Section>& sections() const { return sections_; }

  /// Appends each following measurement to `into` while its capacity suffices; null stops recording.
  void record(std::vector<Span>* into) { spans_ = into; }

 private:
  std::size_t find(std::string_view name) {
    for (std::size_t i = 0; i < sections_.size(); ++i) {
      if (sections_[i].name == name) return i;
    }
    sections_.push_back({name});
    return sections_.size() - 1;
  }

  std::vector<Section> sections_;
  std::vector<Span>* spans_ = nullptr;
  Activity* activity_ = nullptr;
};

}  // namespace bert_hpc::core
