#include "bert_hpc/core/device_timers.hpp"

#include "bert_hpc/core/device_memory.hpp"
#include "check_cuda.hpp"

namespace bert_hpc::core {

TimedMark::~TimedMark() {
  if (event_ != nullptr) static_cast<void>(cudaEventDestroy(static_cast<cudaEvent_t>(event_)));
}

void TimedMark::prepare() {
  if (event_ != nullptr) return;
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreate(&event), "cudaEventCreate");
  event_ = event;
}

void TimedMark::set() {
  prepare();
  check_cuda(cudaEventRecord(static_cast<cudaEvent_t>(event_), static_cast<cudaStream_t>(kernel_stream())),
             "cudaEventRecord");
}

bool TimedMark::is_reached() const {
  const cudaError_t status = cudaEventQuery(static_cast<cudaEvent_t>(event_));
  if (status == cudaErrorNotReady) {
    clear_last_error();
    return false;
  }
  check_cuda(status, "the kernels before a timed mark");
  return true;
}

double TimedMark::seconds_since(const TimedMark& earlier) const {
  const auto begin = static_cast<cudaEvent_t>(earlier.event_), end = static_cast<cudaEvent_t>(event_);
  check_cuda(cudaEventSynchronize(end), "the kernels before a timed mark");
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
  return 1e-3 * static_cast<double>(milliseconds);
}

}  // namespace bert_hpc::core
