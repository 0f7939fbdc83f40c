// Named time ranges for a profiler (NVIDIA's Nsight Systems through NVTX, in CUDA builds). Without a profiler, and in
// CPU builds, they cost a function call.
#pragma once

namespace bert_hpc::core {

/// Begins a range on this thread; ranges nest. `name` is a string literal.
void begin_profiler_range(const char* name);
/// Ends the range that was begun last.
void end_profiler_range();

}  // namespace bert_hpc::core
