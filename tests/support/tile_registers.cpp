// Replaces src/ops/cpu/instruction_set.cpp in the program that tests products and attention in tile registers,
// which tests/CMakeLists.txt compiles with registers that C++ emulates.
#include <cstdio>
#include <cstdlib>

#include "../../src/ops/cpu/instruction_set.hpp"
#include "../../src/ops/cpu/tile_kernels.hpp"

namespace bert_hpc::ops::cpu {

InstructionSet widest_instruction_set() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c")) {
    std::puts("skipped: this processor has no AVX2");
    std::exit(4);
  }
  if (!x86_64_amx::pair_kernels_are_right()) {
    std::puts("the product that programs try first is wrong");
    std::exit(1);
  }
  return InstructionSet::x86_64_amx;
}

}  // namespace bert_hpc::ops::cpu
