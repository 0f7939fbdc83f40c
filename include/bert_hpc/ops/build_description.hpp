// Describes the kernels of this build, for --version. Needs no device.
#pragma once

#include <string>
#include <vector>

namespace bert_hpc::ops {

/// The instruction sets that CPU kernels are compiled for, and the one that this processor uses: "baseline, x86-64-v3,
/// x86-64-v4 and x86-64-v4 with AVX512_BF16; this processor uses x86-64-v4". "" in a GPU build.
std::string instruction_sets();

/// Whether products of bf16 are computed in the processor's tile registers (Intel's AMX).
bool uses_tile_registers();

/// The gemm implementations with versions, in order of preference on this machine: "native (AVX2)", "oneDNN 2.6.3". The
/// portable fallback is left out.
std::vector<std::string> matmul_libraries();

}  // namespace bert_hpc::ops
