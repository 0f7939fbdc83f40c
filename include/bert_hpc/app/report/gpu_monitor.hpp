// What NVIDIA's management library (NVML) reports of one GPU during a run: how busy it is, its memory, power and
// energy. The library comes with the driver and is opened by name at run time, so that the program links and runs where
// there is none; its few functions are declared here by hand, as its interface has been stable since 2015.
//
// A thread asks about once a second and keeps a bounded series: when it is full, every second sample goes and the
// interval doubles.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace bert_hpc::app {

/// What is unknown is NaN.
struct GpuSample {
  double seconds = 0;      ///< since the monitor's begin
  double utilisation = 0;  ///< of the time, a kernel ran: 0 … 1
  double memory = 0;       ///< bytes in use, by anybody
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
  /// Null where it is not to be had or does not know the GPU. `identity` as core::DeviceChoice has it ("GPU-…",
  /// "MIG-…").
  static std::unique_ptr<Nvml> open(const std::string& identity, const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  GpuSample sample() const;  ///< without its time

 private:
  Nvml() = default;
  struct Functions;
  void* library_ = nullptr;
  std::unique_ptr<Functions> functions_;
  void* device_ = nullptr;
};

/// A series of at most `most` samples in the order of time. Not for several threads at once.
class SampleSeries {
 public:
  explicit SampleSeries(std::size_t most) : most_(most) { samples_.reserve(most); }
  void add(const GpuSample& sample);
  const std::vector<GpuSample>& samples() const { return samples_; }
  std::int64_t stride() const { return stride_; }  ///< every how many-th sample is kept

 private:
  std::size_t most_;
  std::int64_t stride_ = 1, seen_ = 0;
  std::vector<GpuSample> samples_;
};

/// Means over a series; NaN where nothing is known.
struct GpuSummary {
  double utilisation = 0, power = 0;
  double peak_memory = 0;  ///< bytes
  double energy = 0;       ///< J between the first and the last sample
};
GpuSummary summary_of(const std::vector<GpuSample>& samples);

class GpuMonitor {
 public:
  /// Without a GPU that NVML knows there are no samples and no thread.
  explicit GpuMonitor(const std::string& identity, std::chrono::milliseconds interval = std::chrono::seconds(1),
                      const std::string& library = "libnvidia-ml.so.1");
  ~GpuMonitor();
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  std::vector<GpuSample> samples() const;  ///< so far

 private:
  void run(std::chrono::milliseconds interval);

  std::unique_ptr<Nvml> nvml_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;
  SampleSeries series_{512};
  std::thread thread_;
};

}  // namespace bert_hpc::app
