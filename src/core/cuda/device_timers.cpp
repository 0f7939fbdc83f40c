#include "bert_hpc/core/device_timers.hpp"

#include "bert_hpc/core/device_memory.hpp"
#include "check_cuda.hpp"

namespace bert_hpc::core {

TimedMark::~TimedMark() {
  if (event_ != nullptr) static_cast<void>(cudaEventDestroy(static_cast<cudaEvent_t>(event_)));
}

void TimedMark::set() {
  cudaEvent_t event = static_cast<cudaEvent_t>(event_);
  if (event == nullptr) check_cuda(cudaEventCreate(&event), "cudaEventCreate");
  event_ = event;
  check_cuda(cudaEventRecord(event, static_cast<cudaStream_t>(kernel_stream())), "cudaEventRecord");
}

double TimedMark::seconds_since(const TimedMark& earlier) const {
  const auto begin = static_cast<cudaEvent_t>(earlier.event_), end = static_cast<cudaEvent_t>(event_);
  check_cuda(cudaEventSynchronize(end), "the kernels before a timed mark");
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
  return 1e-3 * static_cast<double>(milliseconds);
}

}  // namespace bert_hpc::core
