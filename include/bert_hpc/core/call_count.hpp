// The calls a rank makes to its device: kernel launches, gemms, copies, fills, host waits, and collectives and messages
// between ranks. A GPU is fast only if these are few. Observers count them (CallCount) or time them (CallProfile, in
// core/call_profile.hpp). CPU builds make the same calls, so their number can be checked without a GPU. Without an
// observer, a call costs one pointer read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

namespace bert_hpc::core {

enum class DeviceCall : std::uint8_t { kernel, product, copy, fill, wait, collective };
inline constexpr std::array<std::string_view, 6> device_call_names = {"kernels", "products", "copies",
                                                                      "fills",   "waits",    "collectives"};

inline constexpr double unknown_work = std::numeric_limits<double>::quiet_NaN();

/// What one call does: floating-point operations, and bytes that it moves at least (each operand read or written once).
/// NaN: not known where the call is made.
struct CallWork {
  double flops = unknown_work, bytes = unknown_work;
};

/// Work of a copy; a copy onto itself moves nothing.
inline CallWork copy_work(const void* from, const void* to, std::size_t bytes) {
  return {.flops = unknown_work, .bytes = from == to ? 0.0 : static_cast<double>(bytes)};
}
/// Work of a call that writes, fills or sends so many bytes.
inline CallWork bytes_work(std::size_t bytes) {
  return {.flops = unknown_work, .bytes = static_cast<double>(bytes)};
}

/// Sees the calls of a thread. Names are string literals.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  /// A call whose time on the device is not that between two points of this thread.
  virtual void add(DeviceCall call, std::string_view name) = 0;
  /// Before and after any other call. Calls nest. end() is called by destructors.
  virtual void begin(DeviceCall call, std::string_view name, const CallWork& work) = 0;
  virtual void end() noexcept = 0;
  /// Attributes the following calls to a timer section (core/timers.hpp). Returns the previous section.
  virtual std::string_view enter(std::string_view section) = 0;
};

/// The observer of this thread; null: there is none.
inline thread_local CallObserver* call_observer = nullptr;

inline void count_call(DeviceCall call, std::string_view name) {
  if (call_observer != nullptr) call_observer->add(call, name);
}

/// RAII: a call from construction to destruction. On GPUs kernels run later; in the order of the device's work the call
/// is what was started in between.
class CallScope {
 public:
  CallScope(DeviceCall call, std::string_view name, const CallWork& work = {}) : observer_(call_observer) {
    if (observer_ != nullptr) observer_->begin(call, name, work);
  }
  ~CallScope() {
    if (observer_ != nullptr) observer_->end();
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  CallObserver* observer_;
};

/// RAII: `observer` sees this thread's calls during its lifetime; null: none does.
class ObserveCalls {
 public:
  explicit ObserveCalls(CallObserver* observer) : before_(call_observer) { call_observer = observer; }
  ~ObserveCalls() { call_observer = before_; }
  ObserveCalls(const ObserveCalls&) = delete;
  ObserveCalls& operator=(const ObserveCalls&) = delete;

 private:
  CallObserver* before_;
};

class CallCount final : public CallObserver {
 public:
  /// Calls of one kind and name within one section.
  struct Entry {
    std::string_view section, name;
    DeviceCall call = DeviceCall::kernel;
    std::int64_t count = 0;
  };

  void add(DeviceCall call, std::string_view name) override;
  void begin(DeviceCall call, std::string_view name, const CallWork&) override { add(call, name); }
  void end() noexcept override {}
  std::string_view enter(std::string_view section) override;

  /// In the order of their first call.
  const std::vector<Entry>& entries() const { return entries_; }
  std::int64_t total(DeviceCall call) const;
  /// Total of the calls whose name contains `part`.
  std::int64_t total(DeviceCall call, std::string_view part) const;

 private:
  std::vector<Entry> entries_;
  std::string_view section_;
};

}  // namespace bert_hpc::core
