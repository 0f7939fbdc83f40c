// What a rank is at: the last finished step, the section it is in, and how often either has changed. The main thread,
// the only one that writes, says so with plain stores; another thread (the watchdog's) reads it at any moment, also
// while the main thread waits for ever.
#pragma once

#include <atomic>
#include <cstdint>

namespace bert_hpc::core {

class Activity {
 public:
  static constexpr const char* first_section = "start";

  /// Enters a section; returns the one that it was in, to be entered again afterwards. `name` is a string literal.
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
