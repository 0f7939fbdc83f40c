// In every test program: starts the device layer before the first case and stops it after the last.
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "bert_hpc/core/device_runtime.hpp"
#include "support/device_calls.hpp"

namespace {

class DeviceListener : public Catch::EventListenerBase {
 public:
  using Catch::EventListenerBase::EventListenerBase;
  void testRunStarting(const Catch::TestRunInfo&) override {
    if (const std::string missing = bert_hpc::core::DeviceRuntime::missing_device(); !missing.empty()) {
      std::printf("skipped: %s\n", missing.c_str());
      std::exit(4);  // Catch2's status for runs in which everything was skipped
    }
    runtime_ = std::make_unique<bert_hpc::core::DeviceRuntime>();
    bert_hpc::test::DeviceCalls::of_thread();
  }
  void testRunEnded(const Catch::TestRunStats&) override { runtime_.reset(); }

 private:
  std::unique_ptr<bert_hpc::core::DeviceRuntime> runtime_;
};

}  // namespace

CATCH_REGISTER_LISTENER(DeviceListener)
