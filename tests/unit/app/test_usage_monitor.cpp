#include <dlfcn.h>

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <ctime>
#include <limits>

#include "app/report/usage_monitor.hpp"
#include "support/wait_until.hpp"

using namespace bert_hpc::app;

namespace {

constexpr double missing = std::numeric_limits<double>::quiet_NaN();
const std::string fake = BERT_HPC_FAKE_NVML;

/// How often the fake library is up, as long as this lives.
struct Started {
  void* library = dlopen(fake.c_str(), RTLD_NOW);
  int count() const { return reinterpret_cast<int (*)()>(dlsym(library, "fake_nvml_started"))(); }
  ~Started() { dlclose(library); }
};

}  // namespace

TEST_CASE("NVML: open() returns no monitor without the library or the GPU") {
  CHECK(Nvml::open("GPU-fake", "libno-such-library.so.1") == nullptr);
  CHECK(Nvml::open("", fake) == nullptr);
  const Started started;
  REQUIRE(started.library != nullptr);
  CHECK(Nvml::open("GPU-other", fake) == nullptr);
  CHECK(started.count() == 0);  // stopped again
  const UsageMonitor monitor(gpu_usage("GPU-other", fake), std::chrono::milliseconds(1));
  CHECK(monitor.samples().empty());
}

TEST_CASE("NVML: values in our units; a value that the GPU does not report is NaN") {
  const Started started;
  {
    const auto nvml = Nvml::open("GPU-fake", fake);
    REQUIRE(nvml != nullptr);
    CHECK(started.count() == 1);
    const UsageSample first = nvml->sample(), second = nvml->sample();
    CHECK(first.utilisation == 0.5);
    CHECK(first.memory == 600);
    CHECK(std::isnan(first.power));
    CHECK(second.energy - first.energy == 2.0);
  }
  CHECK(started.count() == 0);
}

TEST_CASE("usage monitor: it samples in the background and ends at once") {
  const UsageMonitor monitor(gpu_usage("GPU-fake", fake), std::chrono::milliseconds(1));
  REQUIRE(bert_hpc::test::wait_until([&] { return monitor.samples().size() >= 3; }));
  CHECK(monitor.samples()[1].seconds >= monitor.samples()[0].seconds);
  const UsageMonitor sleeping(gpu_usage("GPU-fake", fake),
                              std::chrono::hours(24));  // its end does not wait for the next sample
  REQUIRE(bert_hpc::test::wait_until([&] { return sleeping.samples().size() == 1; }));
}

TEST_CASE("usage monitor: a last sample is taken at the end, and none after it") {
  UsageMonitor monitor(process_usage(1), std::chrono::hours(24));
  REQUIRE(bert_hpc::test::wait_until([&] { return monitor.samples().size() == 1; }));
  CHECK(std::isnan(monitor.samples()[0].utilisation));  // nothing came before it
  monitor.finish();
  monitor.finish();
  REQUIRE(monitor.samples().size() == 2);
  CHECK(monitor.samples()[1].seconds >= monitor.samples()[0].seconds);
}

TEST_CASE("usage of a process: the time of its threads that processors worked, and resident memory") {
  ProcessUsage usage(2);
  const UsageSample first = usage.sample();
  volatile double sink = 0;
  for (const std::clock_t begin = std::clock(); std::clock() - begin < CLOCKS_PER_SEC / 100;) sink = sink + 1;
  std::vector<char> touched(std::size_t{64} << 20, 1);
  const UsageSample second = usage.sample();
  CHECK((second.utilisation > 0 && second.utilisation <= 1));
  CHECK(second.memory - first.memory > 0.9 * static_cast<double>(touched.size()));
  CHECK(std::isnan(second.power));
}

TEST_CASE("usage monitor: a full series is thinned evenly") {
  SampleSeries series(8);
  for (int i = 0; i < 100; ++i) series.add({static_cast<double>(i), 0, 0, 0, 0});
  CHECK(series.stride() == 16);
  for (std::size_t i = 0; i < series.samples().size(); ++i) {
    CHECK(series.samples()[i].seconds == 16.0 * static_cast<double>(i));
  }
  CHECK(series.samples().size() == 7);  // 0, 16, … 96
}

TEST_CASE("usage monitor: means, peak and energy; the text form keeps every number") {
  const std::vector<UsageSample> samples{
      {0, 0.25, 100, missing, 7}, {1, 0.75, 300, 200, 9}, {2, missing, 200, 400, 12.5}};
  const UsageSummary summary = summary_of(samples);
  CHECK(summary.utilisation == 0.5);
  CHECK(summary.power == 300);
  CHECK(summary.peak_memory == 300);
  CHECK(summary.energy == 5.5);
  CHECK(std::isnan(summary_of({}).power));
  CHECK(std::isnan(summary_of({}).energy));
}
