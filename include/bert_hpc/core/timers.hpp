// Wall-clock timers of named sections. A section costs two clock reads and a short search (under 100 ns), so it may
// stand in the step loop. The sections are plain data that can be reduced over ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

namespace bert_hpc::core {

class Timers {
 public:
  using Clock = std::chrono::steady_clock;

  struct Section {
    std::string_view name;  ///< a string literal's
    std::int64_t calls = 0;
    double seconds = 0;
  };

  /// Measures until its end of life.
  class Scope {
   public:
    Scope(Timers& timers, std::size_t section) : timers_(timers), section_(section), begin_(Clock::now()) {}
    ~Scope() {
      Section& section = timers_.sections_[section_];
      ++section.calls;
      section.seconds += std::chrono::duration<double>(Clock::now() - begin_).count();
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Timers& timers_;
    std::size_t section_;
    Clock::time_point begin_;
  };

  /// `name` is a string literal; sections appear in the order of their first use.
  [[nodiscard]] Scope measure(std::string_view name) { return Scope(*this, find(name)); }

  const std::vector<Section>& sections() const { return sections_; }

 private:
  std::size_t find(std::string_view name) {
    for (std::size_t i = 0; i < sections_.size(); ++i) {
      if (sections_[i].name == name) return i;
    }
    sections_.push_back({name});
    return sections_.size() - 1;
  }

  std::vector<Section> sections_;
};

}  // namespace bert_hpc::core
