// NVTX is header-only; it looks for a profiler when the first range begins.
#include "bert_hpc/core/profiler_range.hpp"

#include <nvtx3/nvToolsExt.h>

namespace bert_hpc::core {

void begin_profiler_range(const char* name) {
  nvtxRangePushA(name);
}

void end_profiler_range() {
  nvtxRangePop();
}

}  // namespace bert_hpc::core
