// bert_hpc --measure-machine FILE.toml: measures this machine with the program's own GEMMs, layers, optimizer and
// communicators, on all ranks at once, and writes the description that [run] machine reads.
#pragma once

#include <string>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/config/machine_description.hpp"
#include "bert_hpc/core/device_choice.hpp"
#include "bert_hpc/core/log.hpp"

namespace bert_hpc::app {

/// First line of every file that measure_machine() writes; only such a file may be replaced.
inline constexpr const char* machine_file_mark = "# Written by bert_hpc --measure-machine.";

/// The file's text: a header with what was measured, where and when, then the description with rates rounded to three
/// significant digits, the accuracy of the measurements. Pure.
std::string machine_file_text(config::MachineFile file, const std::string& header);

/// Throws Error(files) if `path` exists and was not written by measure_machine(), or if the file cannot be created.
void require_machine_file(const std::string& path);

/// Collective over all ranks; the device layer must be initialized. Takes 10 to 25 s on CPUs. Throws Error(files).
void measure_machine(const std::string& path, comm::Communicator& world, int threads, const core::DeviceChoice& device,
                     core::Log& log);

}  // namespace bert_hpc::app
