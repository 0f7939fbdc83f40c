#include "app/report/usage_monitor.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <limits>
#include <utility>

namespace bert_hpc::app {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
}

double mean_of(const std::vector<UsageSample>& samples, double UsageSample::*field) {
  double sum = 0;
  std::int64_t known = 0;
  for (const UsageSample& sample : samples) {
    if (!std::isfinite(sample.*field)) continue;
    sum += sample.*field;
    ++known;
  }
  return known > 0 ? sum / static_cast<double>(known) : unknown;
}

}  // namespace

/// Each returns 0 for success.
struct Nvml::Functions {
  // As NVML's nvmlUtilization_t and nvmlMemory_t.
  struct Utilisation {
    unsigned int gpu, memory;  // per cent
  };
  struct Memory {
    unsigned long long total, free, used;  // bytes
  };

  int (*start)() = nullptr;
  int (*stop)() = nullptr;
  int (*device)(const char*, void**) = nullptr;
  int (*utilisation)(void*, Utilisation*) = nullptr;
  int (*memory)(void*, Memory*) = nullptr;
  int (*power)(void*, unsigned int*) = nullptr;         // mW
  int (*energy)(void*, unsigned long long*) = nullptr;  // mJ
};

std::unique_ptr<Nvml> Nvml::open(const std::string& identity, const std::string& library) {
  if (identity.empty()) return nullptr;
  std::unique_ptr<Nvml> nvml(new Nvml);
  nvml->library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (nvml->library_ == nullptr) return nullptr;
  auto functions = std::make_unique<Functions>();
  find(nvml->library_, "nvmlInit_v2", functions->start);
  find(nvml->library_, "nvmlShutdown", functions->stop);
  find(nvml->library_, "nvmlDeviceGetHandleByUUID", functions->device);
  find(nvml->library_, "nvmlDeviceGetUtilizationRates", functions->utilisation);
  find(nvml->library_, "nvmlDeviceGetMemoryInfo", functions->memory);
  find(nvml->library_, "nvmlDeviceGetPowerUsage", functions->power);
  find(nvml->library_, "nvmlDeviceGetTotalEnergyConsumption", functions->energy);
  if (functions->start == nullptr || functions->stop == nullptr || functions->device == nullptr) return nullptr;
  if (functions->start() != 0) return nullptr;
  nvml->functions_ = std::move(functions);  // from here on it is stopped at the end
  if (nvml->functions_->device(identity.c_str(), &nvml->device_) != 0) return nullptr;
  return nvml;
}

Nvml::~Nvml() {
  if (functions_) functions_->stop();
  if (library_ != nullptr) dlclose(library_);
}

UsageSample Nvml::sample() const {
  const Functions& f = *functions_;
  UsageSample sample{0, unknown, unknown, unknown, unknown};
  Functions::Utilisation utilisation{};
  Functions::Memory memory{};
  unsigned int milliwatts = 0;
  unsigned long long millijoules = 0;
  if (f.utilisation != nullptr && f.utilisation(device_, &utilisation) == 0) {
    sample.utilisation = utilisation.gpu / 100.0;
  }
  if (f.memory != nullptr && f.memory(device_, &memory) == 0) sample.memory = static_cast<double>(memory.used);
  if (f.power != nullptr && f.power(device_, &milliwatts) == 0) sample.power = milliwatts / 1000.0;
  if (f.energy != nullptr && f.energy(device_, &millijoules) == 0) {
    sample.energy = static_cast<double>(millijoules) / 1000.0;
  }
  return sample;
}

namespace {

double seconds_of(clockid_t clock) {
  timespec time{};
  if (clock_gettime(clock, &time) != 0) return unknown;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Bytes; pages that processes share count whole: /proc/self/smaps_rollup, which divides them, takes long in a large
/// process. Allocates nothing.
double resident_memory() {
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return unknown;
  char text[128];
  const ssize_t size = ::read(file, text, sizeof text);
  ::close(file);
  const char* const end = text + std::max<ssize_t>(size, 0);
  const char* const blank = std::find<const char*>(text, end, ' ');
  std::int64_t pages = 0;  // the second number
  if (blank == end || std::from_chars(blank + 1, end, pages).ec != std::errc()) return unknown;
  return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

UsageSample ProcessUsage::sample() {
  const double wall = seconds_of(CLOCK_MONOTONIC), busy = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  const double share = wall_ > 0 && wall > wall_ ? (busy - busy_) / ((wall - wall_) * threads_) : unknown;
  wall_ = wall;
  busy_ = busy;
  return {0, std::min(share, 1.0), resident_memory(), unknown, unknown};  // threads for files work beside the others
}

UsageSource gpu_usage(const std::string& identity, const std::string& library) {
  const std::shared_ptr<Nvml> nvml = Nvml::open(identity, library);
  if (!nvml) return {};
  return [nvml] { return nvml->sample(); };
}

UsageSource process_usage(int threads) {
  return [usage = ProcessUsage(threads)]() mutable { return usage.sample(); };
}

void SampleSeries::add(const UsageSample& sample) {
  if (seen_++ % stride_ != 0) return;
  if (samples_.size() == most_) {
    for (std::size_t i = 0; 2 * i < samples_.size(); ++i) samples_[i] = samples_[2 * i];
    samples_.resize((samples_.size() + 1) / 2);
    stride_ *= 2;
    if ((seen_ - 1) % stride_ != 0) return;
  }
  samples_.push_back(sample);
}

UsageSummary summary_of(const std::vector<UsageSample>& samples) {
  UsageSummary summary{mean_of(samples, &UsageSample::utilisation), mean_of(samples, &UsageSample::power), unknown,
                       unknown};
  for (const UsageSample& sample : samples) {
    if (!(summary.peak_memory >= sample.memory) && std::isfinite(sample.memory)) summary.peak_memory = sample.memory;
  }
  if (!samples.empty()) summary.energy = samples.back().energy - samples.front().energy;
  return summary;
}

UsageMonitor::UsageMonitor(UsageSource source, std::chrono::milliseconds interval) : source_(std::move(source)) {
  if (source_) thread_ = std::thread([this, interval] { run(interval); });
}

UsageMonitor::~UsageMonitor() {
  stop();
}

void UsageMonitor::finish() {
  if (!thread_.joinable()) return;
  stop();
  series_.add(now());
}

void UsageMonitor::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

std::vector<UsageSample> UsageMonitor::samples() const {
  const std::lock_guard lock(mutex_);
  return series_.samples();
}

UsageSample UsageMonitor::now() {
  UsageSample sample = source_();
  sample.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  return sample;
}

void UsageMonitor::run(std::chrono::milliseconds interval) {
  std::unique_lock lock(mutex_);
  for (auto next = begin_; !ends_; next += interval) {
    lock.unlock();  // the driver may take its time
    const UsageSample sample = now();
    lock.lock();
    series_.add(sample);
    wake_.wait_until(lock, next + interval, [this] { return ends_; });
  }
}

}  // namespace bert_hpc::app
