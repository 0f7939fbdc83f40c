// Version of bert_hpc. The definitions are generated at build time (src/cmake/write_version.cmake), so that a new
// commit recompiles one small file and nothing that includes this header.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bert_hpc::core {

std::string_view version();     ///< e.g. "0.1.0"
std::string_view revision();    ///< `git describe` of the source, ending in "-dirty" if changed; "unknown" outside git
std::string_view build_kind();  ///< "CPU", or "CUDA, architectures 80-real 90"

/// Name and version of a dependency: {"HDF5", "1.10.8"}.
using VersionFacts = std::vector<std::pair<std::string, std::string>>;

/// The output of --version: program, version and source revision, then build kind and the facts, one line each.
std::string version_text(std::string_view program, const VersionFacts& facts);

}  // namespace bert_hpc::core
