// Location of the program's own files: example inputs, job scripts and manuals in PREFIX/share/bert_hpc, next to
// PREFIX/bin. It is derived from the path of the executable, so an installed tree may be moved.
#pragma once

#include <string>

namespace bert_hpc::core {

/// The folder with input/, jobs/ and postprocess/ for an executable: PREFIX/share/bert_hpc if it is installed, the
/// checkout if it lies in a build folder of the checkout; "" if neither exists.
std::string share_folder_of(const std::string& executable);

/// The same for the running program.
std::string share_folder();

}  // namespace bert_hpc::core
