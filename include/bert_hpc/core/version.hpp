// Which bert_hpc this is. The definitions are generated at build time (src/cmake/write_version.cmake), so that a new
// commit recompiles one small file and nothing that includes this header.
#pragma once

#include <string_view>

namespace bert_hpc::core {

std::string_view version();   ///< e.g. "0.1.0"
std::string_view revision();  ///< `git describe` of the source, ending in "-dirty" if changed; "unknown" outside git

}  // namespace bert_hpc::core
