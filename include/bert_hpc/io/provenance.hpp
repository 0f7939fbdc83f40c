// What made a result: the machine's name, the time, versions of libraries, and hashes of files.
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

/// FNV-1a with 64 bits (Fowler, Noll, Vo): a name for content, not a defence against forgery. `hash` continues one.
inline constexpr std::uint64_t fnv1a_start = 0xCBF29CE484222325ull;
std::uint64_t fnv1a(std::span<const std::byte> content, std::uint64_t hash = fnv1a_start);
/// Of a file's content, as 16 hexadecimal digits. Throws Error(code) when it cannot be read.
std::string fnv1a_of_file(const std::string& path, core::ExitCode code = core::ExitCode::files);

/// For RunInfo::provenance: HDF5, zlib, compiler and C++ standard of this build, the host, and what the caller adds.
std::vector<std::pair<std::string, std::string>> collect_provenance(
    std::vector<std::pair<std::string, std::string>> more = {});

}  // namespace bert_hpc::io
