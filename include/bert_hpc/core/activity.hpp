// The current activity of a rank: the last finished step, the current section, and a counter of changes to either. Only
// the main thread writes, with plain stores. Another thread (the watchdog) may read at any time, even while the main
// thread is blocked forever.
#pragma once

#include <atomic>
#include <cstdint>

namespace bert_hpc::core {

class Activity {
 public:
  static constexpr const char* first_section = "start";

  /// Enters a section and returns the previous one, so that the caller can restore it. `name` is a string literal.
  const char* enter(const char* name) {
    const char* before = section();
    section_.store(name, std::memory_order_relaxed);
    move();
    return before;
  }
  void finished(std::int64_t step) {
    step_.store(step, std::memory_order_relaxed);
    move();
  }

  const char* section() const { return section_.load(std::memory_order_relaxed); }
  std::int64_t step() const { return step_.load(std::memory_order_relaxed); }
  std::int64_t moves() const { return moves_.load(std::memory_order_relaxed); }

 private:
  void move() { moves_.store(moves() + 1, std::memory_order_relaxed); }

  std::atomic<const char*> section_ = first_section;
  std::atomic<std::int64_t> step_ = 0, moves_ = 0;
};

}  // namespace bert_hpc::core
