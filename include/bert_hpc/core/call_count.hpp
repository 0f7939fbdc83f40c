// Counts the calls a rank makes to its device: kernel launches, gemms, copies, fills, host waits, and collectives and
// messages between ranks. A GPU is fast only if these are few. CPU builds count the same calls, so the number can be
// checked without a GPU. With counting off, a call costs one pointer read.
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
  /// Calls of one kind and name within one timer section (core/timers.hpp). Names are string literals.
  struct Entry {
    std::string_view section, name;
    DeviceCall call = DeviceCall::kernel;
    std::int64_t count = 0;
  };

  void add(DeviceCall call, std::string_view name);
  /// Attributes the following calls to `section`. Returns the previous section.
  std::string_view enter(std::string_view section);

  /// In the order of their first call.
  const std::vector<Entry>& entries() const { return entries_; }
  std::int64_t total(DeviceCall call) const;
  /// Total of the calls whose name contains `part`.
  std::int64_t total(DeviceCall call, std::string_view part) const;

 private:
  std::vector<Entry> entries_;
  std::string_view section_;
};

/// The counter of this thread; null: calls are not counted.
inline thread_local CallCount* call_count = nullptr;

inline void count_call(DeviceCall call, std::string_view name) {
  if (call_count != nullptr) call_count->add(call, name);
}

/// RAII: counts this thread's calls during its lifetime.
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
