// A whole text file at once, however it was meant: no device, pipe or directory, and no more than is expected.
#pragma once

#include <cstdint>
#include <string>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::core {

/// The whole of a regular file (or a link to one) of at most max_bytes. Throws Error(code). Never waits for a pipe's
/// other end.
std::string read_text_file(const std::string& path, std::int64_t max_bytes, ExitCode code = ExitCode::files);

}  // namespace bert_hpc::core
