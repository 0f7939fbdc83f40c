// Observes the device calls of a test, so that arrays which host and device share have the same content in both
// memories (support/vector.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bert_hpc/core/call_count.hpp"
#include "bert_hpc/core/device_memory.hpp"

namespace bert_hpc::test {

class DeviceCalls final : public bert_hpc::core::CallObserver {
 public:
  class Array {
   public:
    virtual ~Array() = default;
    virtual void to_device() = 0;
  };

  /// The observer of this thread. The main of every test program installs it by a first use.
  static DeviceCalls& of_thread() {
    static thread_local DeviceCalls calls;
    return calls;
  }

  /// Number of device calls so far.
  std::uint64_t count() const { return count_; }
  /// `array` is copied to the device before the next call.
  void enter(Array& array) { changed_.push_back(&array); }
  void forget(Array& array) { std::erase(changed_, &array); }

  /// RAII: calls that are not observed.
  class Unobserved {
    bert_hpc::core::ObserveCalls none_{nullptr};
  };
  /// RAII: every call waits for its kernels.
  class Waiting {
   public:
    Waiting() { ++of_thread().waiting_; }
    ~Waiting() { --of_thread().waiting_; }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
  };

  /// Whether kernels are emulated on the host; see HostOperands in support/vector.hpp.
  int emulated = 0;

  /// A wait: what was received meanwhile is there.
  void add(bert_hpc::core::DeviceCall, std::string_view) override { ++count_; }
  void begin(bert_hpc::core::DeviceCall, std::string_view, const bert_hpc::core::CallWork&) override {
    const Unobserved copies;
    for (Array* array : changed_) array->to_device();
    changed_.clear();
    ++count_;
  }
  void end() noexcept override {
    const Unobserved wait;
    if (waiting_ > 0) bert_hpc::core::wait_for_kernels();
  }
  std::string_view enter(std::string_view) override { return {}; }

 private:
  DeviceCalls() { bert_hpc::core::call_observer = this; }
  ~DeviceCalls() override {
    if (bert_hpc::core::call_observer == this) bert_hpc::core::call_observer = nullptr;
  }

  std::vector<Array*> changed_;
  std::uint64_t count_ = 0;
  int waiting_ = 0;
};

}  // namespace bert_hpc::test
