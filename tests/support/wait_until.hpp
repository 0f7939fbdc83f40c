// Waits of tests for events. No result depends on the time that a wait takes; the limit ends a test that hangs.
#pragma once

#include <chrono>
#include <thread>

namespace bert_hpc::test {

/// Waits until condition() is true; returns false after four minutes.
template <class Condition>
bool wait_until(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(4);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace bert_hpc::test
