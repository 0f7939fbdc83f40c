// Variants of kernels in turn: launches as the program starts its own, their times, and a table. Only benchmarks
// include this header.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>

#include "bert_hpc/core/data_type.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "ops/packs.hpp"

namespace bert_hpc::bench {

using ops::packs::Chunk;

using T = core::Bf16;

inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::printf("= %s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

inline int processors() {
  int count = 0;
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0), "cudaDeviceGetAttribute");
  return count;
}

/// Device memory that lives as long as the program.
template <class Element>
Element* take(std::int64_t count, int byte = 0) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, static_cast<std::size_t>(count) * sizeof(Element)), "cudaMalloc");
  check(cudaMemset(memory, byte, static_cast<std::size_t>(count) * sizeof(Element)), "cudaMemset");
  return static_cast<Element*>(memory);
}

inline cudaStream_t stream() {
  return static_cast<cudaStream_t>(core::kernel_stream());
}

// ---- Launches, as the program starts its own.

__device__ inline void wait_for_earlier_kernels() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

template <class... P>
void launch(void (*kernel)(P...), dim3 blocks, int threads, unsigned cluster, const std::type_identity_t<P>&... with) {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = attributes[1].val.clusterDim.z = 1;
  attributes[1].val.clusterDim.y = cluster;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream();
  config.attrs = attributes;
  config.numAttrs = cluster > 1 ? 2 : 1;
  check(cudaLaunchKernelEx(&config, kernel, with...), "a launch");
}

constexpr int sets = 8;  // of operands, which together are larger than the cache

/// µs of a launch: the least of some rounds.
inline double microseconds(const std::function<void(int)>& run, bool cold) {
  static cudaEvent_t begin = nullptr, end = nullptr;
  if (begin == nullptr) {
    check(cudaEventCreate(&begin), "cudaEventCreate");
    check(cudaEventCreate(&end), "cudaEventCreate");
  }
  constexpr int launches = 5 * sets;
  float least = 1e9f;
  for (int round = 0; round < 6; ++round) {
    check(cudaEventRecord(begin, stream()), "cudaEventRecord");
    for (int i = 0; i < launches; ++i) run(cold ? i % sets : 0);
    check(cudaEventRecord(end, stream()), "cudaEventRecord");
    check(cudaEventSynchronize(end), "a kernel");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    least = std::min(least, milliseconds);
  }
  return 1e3 * static_cast<double>(least) / launches;
}

inline std::string summary;

/// `bytes` that a launch must move; `kernel` may be null.
inline double report(const std::string& name, double bytes, const void* kernel, const std::function<void(int)>& run) {
  cudaFuncAttributes attributes{};
  if (kernel != nullptr) check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
  const double cold = microseconds(run, true), warm = microseconds(run, false);
  std::printf("  %-46s %3d registers %4zu spilled  cold %6.2f us %5.0f GB/s  warm %6.2f us\n", name.c_str(),
              attributes.numRegs, attributes.localSizeBytes, cold, 1e-3 * bytes / cold, warm);
  std::fflush(stdout);
  return cold;
}

/// Reports the variants of one kernel; the summary has the product's time and the best.
class Group {
 public:
  Group(std::string name, double bytes) : name_(std::move(name)), bytes_(bytes) {
    std::printf("%s: %.1f MB\n", name_.c_str(), 1e-6 * bytes);
  }
  ~Group() {
    summary += (summary.empty() ? "" : "; ") + name_ + " " + tenths(product_) + ", best " + tenths(best_) + " (" +
               best_name_ + ")";
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  void add(const std::string& name, const void* kernel, const std::function<void(int)>& run) {
    const double time = report(name, bytes_, kernel, run);
    if (name.ends_with("product")) product_ = time;
    if (kernel == nullptr || name.starts_with("memory") || time >= best_) return;
    best_ = time;
    best_name_ = name;
  }

 private:
  static std::string tenths(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", x);
    return text;
  }
  std::string name_, best_name_;
  double bytes_, product_ = 0, best_ = 1e9;
};

// ---- Memory alone.

template <int reads, int writes>
__global__ void __launch_bounds__(256) move(const T* from, T* to, std::int64_t chunks) {
  wait_for_earlier_kernels();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= chunks) return;
  Chunk sum{};
  for (int r = 0; r < reads; ++r) {
    const Chunk part = reinterpret_cast<const Chunk*>(from)[r * chunks + i];
    for (int w = 0; w < 4; ++w) sum.words[w] ^= part.words[w];
  }
  for (int w = 0; w < writes; ++w) ops::packs::put(sum, reinterpret_cast<Chunk*>(to) + w * chunks + i);
  if (writes == 0 && sum.words[0] == 0x12345678u) ops::packs::put(sum, reinterpret_cast<Chunk*>(to));
}

template <int reads, int writes>
void add_memory(Group& group, std::int64_t elements, T* memory, std::int64_t set) {
  const std::int64_t chunks = elements / ops::packs::width;
  group.add("memory", reinterpret_cast<const void*>(move<reads, writes>), [=](int i) {
    launch(move<reads, writes>, dim3(static_cast<unsigned>((chunks + 255) / 256)), 256, 1, memory + i * set,
           memory + i * set + reads * elements, chunks);
  });
}

}  // namespace bert_hpc::bench
