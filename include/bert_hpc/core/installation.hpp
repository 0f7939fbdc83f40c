// Where this program's own files are: example inputs, job scripts and manuals lie in PREFIX/share/bert_hpc beside
// PREFIX/bin. Found from the place of the executable, so that an installed tree may be moved.
#pragma once

#include <string>

namespace bert_hpc::core {

/// The folder with input/, jobs/ and postprocess/ that belongs to an executable: PREFIX/share/bert_hpc of an installed
/// one, the checkout of one in a build folder below it; "" where neither is found.
std::string share_folder_of(const std::string& executable);

/// The same of the running program.
std::string share_folder();

}  // namespace bert_hpc::core
