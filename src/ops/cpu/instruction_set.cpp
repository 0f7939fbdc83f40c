#include "instruction_set.hpp"

#if defined(BERT_HPC_AMX_KERNELS)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#endif

#include <string_view>

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/ops/build_description.hpp"
#include "tile_kernels.hpp"

namespace bert_hpc::ops {

namespace cpu {
namespace {

#if defined(BERT_HPC_AMX_KERNELS)
/// Whether the processor has tile registers for bf16, the operating system saves them, and this process may use them,
/// which it asks for once (Linux 5.16 and newer), unless the environment has BERT_HPC_AMX=0. A product that is known
/// decides in the end: a virtual machine may promise more than it keeps.
bool may_use_tiles() {
  const char* const wish = std::getenv("BERT_HPC_AMX");
  if (wish != nullptr && std::string_view(wish) == "0") return false;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned saves_registers = 1u << 27;  // of leaf 1, ecx
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & saves_registers) == 0) return false;
  constexpr unsigned tiles_of_bf16 = 1u << 22 | 1u << 24;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & tiles_of_bf16) != tiles_of_bf16) return false;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned saved_tiles = 1u << 17 | 1u << 18;
  if ((low & saved_tiles) != saved_tiles) return false;
  constexpr long ask_for_state = 0x1023, tile_data = 18;
  return ::syscall(SYS_arch_prctl, ask_for_state, tile_data) == 0 && x86_64_amx::pair_kernels_are_right();
}
#endif

InstructionSet find_widest() {
#if defined(BERT_HPC_X86_KERNELS)
  __builtin_cpu_init();
  // These match the compiler options of each set in CMakeLists.txt.
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  const bool v4_bf16 = v4 && __builtin_cpu_supports("avx512bf16");
#if defined(BERT_HPC_AMX_KERNELS)
  if (v4_bf16 && may_use_tiles()) return InstructionSet::x86_64_amx;
#endif
  // On a Xeon, training in bf16 with pairs (vdpbf16ps) takes 1.5 times as long as with floats
  // (tests/bench/results/regress.md).
  if (v4_bf16 && !__builtin_cpu_is("intel")) return InstructionSet::x86_64_v4_bf16;
  if (v4) return InstructionSet::x86_64_v4;
  if (v3) return InstructionSet::x86_64_v3;
#endif
  return InstructionSet::baseline;
}

}  // namespace

InstructionSet widest_instruction_set() {
  static const InstructionSet widest = find_widest();
  return widest;
}

}  // namespace cpu

std::string instruction_sets() {
  std::vector<std::string> compiled = {"baseline"};
#if defined(BERT_HPC_X86_KERNELS)
  compiled.insert(compiled.end(), {"x86-64-v3", "x86-64-v4", "x86-64-v4 with AVX512_BF16"});
#endif
#if defined(BERT_HPC_AMX_KERNELS)
  compiled.push_back("AMX");
#endif
  const std::string used = compiled[static_cast<std::size_t>(cpu::widest_instruction_set())];
  return core::listed(compiled, "and", false) + "; this processor uses " + used;
}

bool uses_tile_registers() {
  return cpu::widest_instruction_set() == cpu::InstructionSet::x86_64_amx;
}

}  // namespace bert_hpc::ops
