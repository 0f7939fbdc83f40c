// The time that each kind of call takes on the device, and what is known of its work. Times are between two marks in
// the order of the device's work (core/device_timers.hpp), so nothing waits within a step; collect() adds them up after
// it. On CPUs kernels run in the calling thread. On GPUs a call's time includes the gap before its kernel where the
// host launches more slowly than the GPU computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bert_hpc/core/call_count.hpp"
#include "bert_hpc/core/device_timers.hpp"

namespace bert_hpc::core {

class CallProfile final : public CallObserver {
 public:
  /// Sums over the calls of one kind and name within one section. NaN: one of them does not know.
  struct Entry {
    std::string_view section, name;
    DeviceCall call = DeviceCall::kernel;
    std::int64_t calls = 0;
    double seconds = 0;  ///< without that of calls within it
    CallWork work{0, 0};
  };

  void add(DeviceCall call, std::string_view name) override;
  void begin(DeviceCall call, std::string_view name, const CallWork& work) override;
  void end() noexcept override;
  std::string_view enter(std::string_view section) override;

  /// Waits for the device and adds the time of the calls since the last collect(). Not within a call. Throws what went
  /// wrong at the end of one.
  void collect();

  /// In the order of the first calls. Times are those collected.
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  /// Names are literals and compared by address, which takes the time of a few calls.
  struct Key {
    const char *section, *name;
    DeviceCall call;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  /// One timed call of the step; its marks are 2i and 2i + 1.
  struct Record {
    std::size_t entry, outer;
  };
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  Entry& entry_of(DeviceCall call, std::string_view name);

  std::vector<Entry> entries_;
  std::unordered_map<Key, std::size_t, Hash> indices_;
  std::string_view section_;
  // Those of a step grow in the first steps only.
  std::deque<TimedMark> marks_;
  std::vector<Record> records_;
  std::size_t open_ = none;  // the innermost call under way
  std::exception_ptr failure_;
};

}  // namespace bert_hpc::core
