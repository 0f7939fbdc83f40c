// Selects the compilation of src/ops/cpu/isa for this processor.
#pragma once

namespace bert_hpc::ops::cpu {

/// The sets that CMake compiles isa/*.cpp for, and with AMX amx/*.cpp; each includes the previous ones.
enum class InstructionSet { baseline, x86_64_v3, x86_64_v4, x86_64_v4_bf16, x86_64_amx };

/// The last set that this build has, that the processor and operating system support, and that is not slower than the
/// one before.
InstructionSet widest_instruction_set();

}  // namespace bert_hpc::ops::cpu
