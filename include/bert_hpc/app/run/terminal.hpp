// Does a person watch? Open MPI's launcher gives each rank a pseudo-terminal even where its own output goes to a file,
// so a rank that it started asks what the launcher's output is.
#pragma once

#include <string>

namespace bert_hpc::app {

struct Terminal {
  bool present = false;
  std::string name;  ///< of TERM
  int columns = 0;   ///< 0: unknown
};

Terminal inspect_terminal();

}  // namespace bert_hpc::app
