// Reads a whole text file, and rejects devices, pipes, directories and files larger than expected.
#pragma once

#include <cstdint>
#include <string>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::core {

/// The content of a regular file (or a link to one) of at most max_bytes. Throws Error(code). Never blocks on a pipe.
std::string read_text_file(const std::string& path, std::int64_t max_bytes, ExitCode code = ExitCode::files);

}  // namespace bert_hpc::core
