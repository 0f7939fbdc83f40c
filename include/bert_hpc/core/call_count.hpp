// Counts what a rank asks of its device: kernel launches, matrix products, copies, fills, waits of the host, and
// collectives and messages between ranks. A GPU is fast only where these are few, and that can be seen without one: CPU
// builds count the same calls. Where nothing is counted a call costs the read of one pointer.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace bert_hpc::core {

enum class DeviceCall : std::uint8_t { kernel, product, copy, fill, wait, collective };
inline constexpr std::array<std::string_view, 6> device_call_names = {"kernels", "products", "copies",
                                                                      "fills",   "waits",    "collectives"};

class CallCount {
 public:
  /// Calls of one kind and name within one section of the timers (core/timers.hpp). Names are string literals.
  struct Entry {
    std::string_view section, name;
    DeviceCall call = DeviceCall::kernel;
    std::int64_t count = 0;
  };

  void add(DeviceCall call, std::string_view name);
  /// Calls from here on are in `section`. Returns the section before.
  std::string_view enter(std::string_view section);

  /// In the order of their first call.
  const std::vector<Entry>& entries() const { return entries_; }
  std::int64_t total(DeviceCall call) const;
  /// Of the calls whose name contains `part`.
  std::int64_t total(DeviceCall call, std::string_view part) const;

 private:
  std::vector<Entry> entries_;
  std::string_view section_;
};

/// What this thread's calls are added to; null: they are not counted.
inline thread_local CallCount* call_count = nullptr;

inline void count_call(DeviceCall call, std::string_view name) {
  if (call_count != nullptr) call_count->add(call, name);
}

/// This thread's calls are counted while one of these lives.
class CountCalls {
 public:
  explicit CountCalls(CallCount& count) : before_(call_count) { call_count = &count; }
  ~CountCalls() { call_count = before_; }
  CountCalls(const CountCalls&) = delete;
  CountCalls& operator=(const CountCalls&) = delete;

 private:
  CallCount* before_;
};

}  // namespace bert_hpc::core
