// The program behind main(): what each mode does, from the input to the results on disk.
#pragma once

#include <string>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/config/config.hpp"

namespace bert_hpc::app {

struct Invocation {
  std::string input_path;
  std::vector<std::string> overrides;  ///< of --set
  bool validate = false, overwrite = false;
  int validate_ranks = 0;
};

/// Collective over all ranks. Returns the exit status, the same on every rank. Throws core::Error where a rank fails
/// alone: the caller then ends all ranks.
int run_application(const Invocation& invocation, comm::Communicator& world, comm::Communicator& node, int threads);

}  // namespace bert_hpc::app
