#include "instruction_set.hpp"

namespace bert_hpc::ops::cpu {

InstructionSet widest_instruction_set() {
#if defined(BERT_HPC_X86_KERNELS)
  __builtin_cpu_init();
  // The compiler's options for each set, in CMakeLists.txt.
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (v4 && __builtin_cpu_supports("avx512bf16")) return InstructionSet::x86_64_v4_bf16;
  if (v4) return InstructionSet::x86_64_v4;
  if (v3) return InstructionSet::x86_64_v3;
#endif
  return InstructionSet::baseline;
}

}  // namespace bert_hpc::ops::cpu
