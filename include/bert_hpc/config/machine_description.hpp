// Reads the file that [run] machine names: a machine in a dozen numbers, for estimates of time before a run. As strict
// as every input file here: unknown keys and impossible values are reported together, with their places.
#pragma once

#include <string>

#include "bert_hpc/core/machine_description.hpp"

namespace bert_hpc::config {

/// `compute` as in precision.compute: which of the machine's rates is meant. Throws Error(input) with every problem.
core::MachineDescription parse_machine(const std::string& path, const std::string& compute);
/// The same from text already read; `name` is what messages call it.
core::MachineDescription parse_machine_text(const std::string& text, const std::string& name,
                                            const std::string& compute);

}  // namespace bert_hpc::config
