// CPU builds report to no profiler.
#include "bert_hpc/core/profiler_range.hpp"

namespace bert_hpc::core {

void begin_profiler_range(const char*) {}

void end_profiler_range() {}

}  // namespace bert_hpc::core
