// Replaces src/ops/cpu/instruction_set.cpp in the program that tests the kernels for 512-bit vectors: every processor
// with AVX2 selects kernels that tests/CMakeLists.txt compiles with vectors of half the width.
#include <cstdio>
#include <cstdlib>

#include "../../src/ops/cpu/instruction_set.hpp"

namespace bert_hpc::ops::cpu {

InstructionSet widest_instruction_set() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c")) {
    std::puts("skipped: this processor has no AVX2");
    std::exit(4);
  }
  if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bf16") && !__builtin_cpu_is("intel")) {
    std::puts("skipped: unit/ops runs these kernels, as this processor has AVX512_BF16 and is not Intel's");
    std::exit(4);
  }
  return InstructionSet::x86_64_v4_bf16;
}

}  // namespace bert_hpc::ops::cpu
