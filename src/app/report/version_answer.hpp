// The output of --help, --version and --example.
#pragma once

#include <string>

#include "bert_hpc/config/command_line.hpp"

namespace bert_hpc::app {

/// The text for --help, --version or --example.
std::string answer(const config::CommandLine& line, const config::Program& program);

}  // namespace bert_hpc::app
