// The input of a run, read and checked as far as that goes without opening data: keys, what keys ask of each other, the
// model, the grid of ranks. What is wrong comes at once where one thing does not hide the other.
#pragma once

#include <optional>
#include <string>

#include "app/run/run_context.hpp"
#include "bert_hpc/core/machine_description.hpp"

namespace bert_hpc::app {

struct LoadedInput {
  config::Config config;
  comm::GridShape grid;
  ResolvedInput resolved{""};
  std::optional<core::MachineDescription> planned_machine{};  ///< of --validate: what [run] machine describes
};

/// Throws core::Error with all that is found. Where something is wrong and `looks` is true, files and folders that the
/// input names and that are not there are reported too; one rank does so for all. Where nothing else is wrong that is
/// left to the code that opens them, which finds more.
LoadedInput load_input(const std::string& text, const Invocation& invocation, int ranks, bool looks);

}  // namespace bert_hpc::app
