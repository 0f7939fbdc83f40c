#include "instruction_set.hpp"

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/ops/build_description.hpp"

namespace bert_hpc::ops {

namespace cpu {

InstructionSet widest_instruction_set() {
#if defined(BERT_HPC_X86_KERNELS)
  __builtin_cpu_init();
  // These match the compiler options of each set in CMakeLists.txt.
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (v4 && __builtin_cpu_supports("avx512bf16")) return InstructionSet::x86_64_v4_bf16;
  if (v4) return InstructionSet::x86_64_v4;
  if (v3) return InstructionSet::x86_64_v3;
#endif
  return InstructionSet::baseline;
}

}  // namespace cpu

std::string instruction_sets() {
  std::vector<std::string> compiled = {"baseline"};
#if defined(BERT_HPC_X86_KERNELS)
  compiled.insert(compiled.end(), {"x86-64-v3", "x86-64-v4", "x86-64-v4 with AVX512_BF16"});
#endif
  const std::string used = compiled[static_cast<std::size_t>(cpu::widest_instruction_set())];
  return core::listed(compiled, "and", false) + "; this processor uses " + used;
}

}  // namespace bert_hpc::ops
