// Device memory of CUDA builds. Copies and fills are enqueued in the stream of kernels, in order with the kernels.
// Copies that the host waits for wait for that stream only.
#include "bert_hpc/core/device_memory.hpp"

#include <cstdlib>
#include <cstring>
#include <string>

#include "bert_hpc/core/call_count.hpp"
#include "bert_hpc/core/device_runtime.hpp"
#include "check_cuda.hpp"

namespace bert_hpc::core {
namespace {

/// Kokkos' stream, one per process.
cudaStream_t stream_of_kernels = nullptr;

cudaStream_t stream() {
  return stream_of_kernels;
}

/// Without a GPU an input can still be validated, which computes nothing; allocations are then host memory.
bool without_device() {
  static const bool without = !DeviceRuntime::missing_device().empty();
  return without;
}

/// Reports a failed allocation.
[[noreturn]] void out_of_memory(std::size_t bytes, const char* where) {
  std::size_t available = 0, all = 0;
  std::string rest;
  if (cudaMemGetInfo(&available, &all) == cudaSuccess) {
    rest = " (" + std::to_string(available >> 20) + " of the GPU's " + std::to_string(all >> 20) + " MiB are free)";
  }
  clear_last_error();  // of the allocation: the exception reports it
  throw Error(ExitCode::input, "out of memory: " + std::to_string(bytes >> 20) + " MiB could not be allocated " +
                                   where + rest + "; use a smaller batch.micro_tokens, more of [parallel] zero, a " +
                                   "smaller model, or more GPUs.");
}

}  // namespace

void* allocate_memory(std::size_t bytes, MemoryKind kind) {
  if (bytes == 0) return nullptr;
  void* pointer = nullptr;
  if (without_device()) {
    pointer = std::calloc(1, bytes);
    if (pointer == nullptr) out_of_memory(bytes, "");
    return pointer;
  }
  if (kind == MemoryKind::host) {
    if (cudaMallocHost(&pointer, bytes) != cudaSuccess) out_of_memory(bytes, "as pinned host memory");
    std::memset(pointer, 0, bytes);
    return pointer;
  }
  if (cudaMalloc(&pointer, bytes) != cudaSuccess) out_of_memory(bytes, "on the GPU");
  check_cuda(cudaMemsetAsync(pointer, 0, bytes, stream()), "cudaMemset");
  return pointer;
}

void free_memory(void* pointer, std::size_t, MemoryKind kind) noexcept {
  if (pointer == nullptr) return;
  if (without_device()) return std::free(pointer);
  const cudaError_t status = kind == MemoryKind::host ? cudaFreeHost(pointer) : cudaFree(pointer);
  if (status != cudaSuccess) clear_last_error();  // cannot be reported here; a serious error ends the context
}

void wait_for_kernels() {
  count_call(DeviceCall::wait, "wait_for_kernels");
  check_cuda(cudaStreamSynchronize(stream()), "the kernels so far");
}

DeviceMark::~DeviceMark() {
  if (event_ != nullptr) static_cast<void>(cudaEventDestroy(static_cast<cudaEvent_t>(event_)));
}

void DeviceMark::set() {
  if (without_device()) return;
  cudaEvent_t event = static_cast<cudaEvent_t>(event_);
  if (event == nullptr) check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  event_ = event;
  check_cuda(cudaEventRecord(event, stream()), "cudaEventRecord");
}

void DeviceMark::wait() const {
  if (event_ == nullptr) return;
  const cudaError_t status = cudaEventQuery(static_cast<cudaEvent_t>(event_));
  if (status == cudaSuccess) return;  // usual case: most marks belong to earlier steps
  if (status == cudaErrorNotReady) clear_last_error();
  count_call(DeviceCall::wait, "DeviceMark");
  check_cuda(cudaEventSynchronize(static_cast<cudaEvent_t>(event_)), "the kernels before a mark");
}

bool is_gpu_build() {
  return true;
}

void* kernel_stream() {
  return stream_of_kernels;
}

void set_kernel_stream(void* stream) {
  stream_of_kernels = static_cast<cudaStream_t>(stream);
}

bool host_sees_device_memory() {
  return without_device();
}

void copy_to_host(const void* device, void* host, std::size_t bytes) {
  count_call(DeviceCall::wait, "copy_to_host");
  {  // without the wait
    const CallScope call(DeviceCall::copy, "copy_to_host", copy_work(device, host, bytes));
    if (device == host || bytes == 0) return;
    check_cuda(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDefault, stream()), "a copy from the GPU");
  }
  check_cuda(cudaStreamSynchronize(stream()), "the kernels before a copy from the GPU");
}

void copy_to_device(const void* host, void* device, std::size_t bytes) {
  count_call(DeviceCall::wait, "copy_to_device");
  {
    const CallScope call(DeviceCall::copy, "copy_to_device", copy_work(host, device, bytes));
    if (device == host || bytes == 0) return;
    check_cuda(cudaMemcpyAsync(device, host, bytes, cudaMemcpyDefault, stream()), "a copy to the GPU");
  }
  check_cuda(cudaStreamSynchronize(stream()), "the kernels before a copy to the GPU");
}

void start_copy_to_device(const void* host, void* device, std::size_t bytes) {
  const CallScope call(DeviceCall::copy, "start_copy_to_device", copy_work(host, device, bytes));
  if (device == host || bytes == 0) return;
  check_cuda(cudaMemcpyAsync(device, host, bytes, cudaMemcpyDefault, stream()), "a copy to the GPU");
}

void start_copy_to_host(const void* device, void* host, std::size_t bytes) {
  const CallScope call(DeviceCall::copy, "start_copy_to_host", copy_work(device, host, bytes));
  if (device == host || bytes == 0) return;
  check_cuda(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDefault, stream()), "a copy from the GPU");
}

void copy_on_device(const void* from, void* to, std::size_t bytes) {
  const CallScope call(DeviceCall::copy, "copy_on_device", copy_work(from, to, 2 * bytes));
  if (from == to || bytes == 0) return;
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream()), "a copy on the GPU");
}

void fill_on_device(void* device, unsigned char value, std::size_t bytes) {
  const CallScope call(DeviceCall::fill, "fill_on_device", bytes_work(bytes));
  if (bytes > 0) check_cuda(cudaMemsetAsync(device, value, bytes, stream()), "cudaMemset");
}

DeviceAccess::DeviceAccess() = default;
DeviceAccess::~DeviceAccess() = default;

bool device_memory_is_guarded() {
  return false;
}

void require_device_memory(const void*, const char*) {}

void require_device_operands(const void*, std::size_t, const char*) {}

void* transport_address(const void* pointer) {
  return const_cast<void*>(pointer);
}

}  // namespace bert_hpc::core
