// What a rank is at: the last finished step and the section it is in. The main thread says so with a plain store each;
// another thread (the watchdog's) reads it at any moment, also while the main thread waits for ever.
#pragma once

#include <atomic>
#include <cstdint>

namespace bert_hpc::core {

class Activity {
 public:
  /// Enters a section; returns the one that it was in, to be entered again afterwards. `name` is a string literal.
  const char* enter(const char* name) {
    const char* before = section();
    section_.store(name, std::memory_order_relaxed);
    return before;
  }
  void finished(std::int64_t step) { step_.store(step, std::memory_order_relaxed); }

  const char* section() const { return section_.load(std::memory_order_relaxed); }
  std::int64_t step() const { return step_.load(std::memory_order_relaxed); }

 private:
  std::atomic<const char*> section_ = "start";
  std::atomic<std::int64_t> step_ = 0;
};

}  // namespace bert_hpc::core
