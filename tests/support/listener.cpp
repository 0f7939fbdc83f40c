// Starts the device layer before a test run's first case and stops it after the last, in every test program.
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#include <memory>

#include "bert_hpc/core/device_runtime.hpp"

namespace {

class DeviceListener : public Catch::EventListenerBase {
 public:
  using Catch::EventListenerBase::EventListenerBase;
  void testRunStarting(const Catch::TestRunInfo&) override {
    runtime_ = std::make_unique<bert_hpc::core::DeviceRuntime>();
  }
  void testRunEnded(const Catch::TestRunStats&) override { runtime_.reset(); }

 private:
  std::unique_ptr<bert_hpc::core::DeviceRuntime> runtime_;
};

}  // namespace

CATCH_REGISTER_LISTENER(DeviceListener)
