// Which compilation of src/ops/cpu/isa runs on this processor.
#pragma once

namespace bert_hpc::ops::cpu {

/// What CMake compiles isa/*.cpp for; each knows what those before it know.
enum class InstructionSet { baseline, x86_64_v3, x86_64_v4, x86_64_v4_bf16 };

/// The last that this build has and this processor (under this operating system) runs.
InstructionSet widest_instruction_set();

}  // namespace bert_hpc::ops::cpu
