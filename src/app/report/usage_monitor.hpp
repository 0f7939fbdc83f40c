// Measures utilisation and memory of a rank's device during a run. On GPUs the NVIDIA Management Library (NVML) reports
// them, with power and energy. On CPUs the monitor reads processor time and memory of the process. The program loads
// NVML at run time and declares the NVML functions that it calls: it builds without NVML's header and runs on machines
// without the driver.
//
// A thread asks about once a second and keeps a bounded series: when it is full, every second sample goes and the
// interval doubles.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace bert_hpc::app {

/// Usage of a device at a time; unknown fields are NaN.
struct UsageSample {
  double seconds = 0;      ///< since the monitor's begin
  double utilisation = 0;  ///< of the time, a kernel ran on the GPU; of the threads' time, the CPUs worked: 0 … 1
  double memory = 0;       ///< bytes: of the GPU in use, by anybody; of the process resident
  double power = 0;        ///< W
  double energy = 0;       ///< J since the driver was loaded

  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.seconds, self.utilisation, self.memory, self.power, self.energy);
  }
};

/// The library, opened and started; closed at the end of life.
class Nvml {
 public:
  /// Null if it is not to be had or does not know the GPU. `identity` as core::DeviceChoice has it ("GPU-…",
  /// "MIG-…").
  static std::unique_ptr<Nvml> open(const std::string& identity, const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  UsageSample sample() const;  ///< without its time

 private:
  Nvml() = default;
  struct Functions;
  void* library_ = nullptr;
  std::unique_ptr<Functions> functions_;
  void* device_ = nullptr;
};

/// The process itself: the processors' time that it has taken since the last sample, as a share of the time of its
/// threads, and its resident memory. A thread that waits in a loop, as MPI does, takes time too.
class ProcessUsage {
 public:
  explicit ProcessUsage(int threads) : threads_(threads) {}

  UsageSample sample();  ///< without its time; the first has no utilisation

 private:
  int threads_;
  double wall_ = 0, busy_ = 0;  // s, at the last sample; 0: there was none
};

/// A series of at most `most` samples in the order of time. Not for several threads at once.
class SampleSeries {
 public:
  explicit SampleSeries(std::size_t most) : most_(most) { samples_.reserve(most); }
  void add(const UsageSample& sample);
  const std::vector<UsageSample>& samples() const { return samples_; }
  std::int64_t stride() const { return stride_; }  ///< every how many-th sample is kept

 private:
  std::size_t most_;
  std::int64_t stride_ = 1, seen_ = 0;
  std::vector<UsageSample> samples_;
};

/// Means over a series; NaN if nothing is known.
struct UsageSummary {
  double utilisation = 0, power = 0;
  double peak_memory = 0;  ///< bytes
  double energy = 0;       ///< J between the first and the last sample
};
UsageSummary summary_of(const std::vector<UsageSample>& samples);

/// Returns a sample without its time. One thread at a time calls it.
using UsageSource = std::function<UsageSample()>;

/// Source of a GPU's samples; empty if NVML does not know the GPU.
UsageSource gpu_usage(const std::string& identity, const std::string& library = "libnvidia-ml.so.1");
/// Source of samples of this process, which has `threads` threads.
UsageSource process_usage(int threads);

class UsageMonitor {
 public:
  /// Without a source there are no samples and no thread.
  explicit UsageMonitor(UsageSource source, std::chrono::milliseconds interval = std::chrono::seconds(1));
  ~UsageMonitor();
  UsageMonitor(const UsageMonitor&) = delete;
  UsageMonitor& operator=(const UsageMonitor&) = delete;

  /// Takes a last sample and ends the thread.
  void finish();
  std::vector<UsageSample> samples() const;  ///< so far

 private:
  void run(std::chrono::milliseconds interval);
  UsageSample now();
  void stop();

  UsageSource source_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;
  SampleSeries series_{512};
  std::thread thread_;
};

}  // namespace bert_hpc::app
