// Provenance of a result: host name, time, library versions and file hashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::io {

std::string host_name();

/// "2026-01-31T12:00:00Z" (ISO 8601, UTC, whole seconds).
std::string utc_text(std::time_t time);
std::string utc_now();

/// For RunInfo::provenance: HDF5, zlib, compiler and C++ standard of this build, the host, and the caller's entries.
std::vector<std::pair<std::string, std::string>> collect_provenance(
    std::vector<std::pair<std::string, std::string>> more = {});

}  // namespace bert_hpc::io
