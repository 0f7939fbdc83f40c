// Detects whether output goes to a terminal. Open MPI's launcher gives each rank a pseudo-terminal even if its own
// output goes to a file, so a rank that it started inspects the launcher's output.
#pragma once

#include <string>

namespace bert_hpc::app {

struct Terminal {
  bool present = false;
  std::string name;  ///< value of TERM
  int columns = 0;   ///< 0: unknown
};

Terminal inspect_terminal();

}  // namespace bert_hpc::app
