// Counted calls of the device: by section, by name, for the thread that counts.
#include "bert_hpc/core/call_count.hpp"

#include <catch2/catch_test_macros.hpp>
#include <thread>
#include <vector>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/timers.hpp"

using namespace bert_hpc::core;

TEST_CASE("calls are counted by section and name, in the thread that counts alone") {
  CallCount count;
  Timers timers;
  count_call(DeviceCall::kernel, "before");
  {
    const ObserveCalls counting(&count);
    count_call(DeviceCall::kernel, "a");
    const auto section = timers.measure("outer");
    count_call(DeviceCall::kernel, "a");
    {
      const auto inner = timers.measure("inner");
      count_call(DeviceCall::product, "p");
      count_call(DeviceCall::product, "p");
    }
    count_call(DeviceCall::kernel, "ab");
    std::thread([] { count_call(DeviceCall::kernel, "elsewhere"); }).join();
  }
  count_call(DeviceCall::kernel, "after");
  REQUIRE(count.entries().size() == 4);
  CHECK(count.entries()[0].section.empty());
  CHECK(count.entries()[1].section == "outer");
  CHECK(count.entries()[2].section == "inner");
  CHECK(count.entries()[2].count == 2);
  CHECK(count.entries()[3].section == "outer");
  CHECK(count.total(DeviceCall::kernel) == 3);
  CHECK(count.total(DeviceCall::kernel, "b") == 1);
  CHECK(count.total(DeviceCall::product) == 2);
  CHECK(count.total(DeviceCall::collective) == 0);
}

TEST_CASE("copies, fills and waits are counted where host and device share memory too") {
  const MirroredArray<double> array(8);
  std::vector<double> host(8);
  CallCount count;
  const ObserveCalls counting(&count);
  fill_on_device(array.device(), 0, 8 * sizeof(double));
  array.to_host(8);
  copy_to_host(array.device(), host.data(), 8 * sizeof(double));
  array.to_device(8);
  wait_for_kernels();
  CHECK(count.total(DeviceCall::fill) == 1);
  CHECK(count.total(DeviceCall::copy) == 3);
  CHECK(count.total(DeviceCall::wait) == 3);
}
