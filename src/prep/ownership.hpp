// Which files of an output directory bert_hpc_prep wrote itself and may therefore replace. Internal to the module.
//
// The manifest, DIR/.written_by_bert_hpc_prep, lists every file of the last run with its size and CRC-32. A directory
// of version 0.1.0 has no manifest: its files are recognised by their form.
#pragma once

#include <string>
#include <vector>

namespace bert_hpc::prep {

/// Name of the manifest.
inline constexpr const char* manifest_name = ".written_by_bert_hpc_prep";

/// Names of the shards that `directory` holds, sorted; none if there is no such directory. Throws Error(files).
std::vector<std::string> shard_names(const std::string& directory);

/// Throws Error(input) that names the files which a run would replace in `directory` and which no run of bert_hpc_prep
/// left there, or which were changed since. Error(files) if `directory` cannot be read.
void refuse_foreign_files(const std::string& directory);

/// Names in `directory` that refuse_foreign_files() accepts: a run replaces or removes these files. Sorted.
std::vector<std::string> own_files(const std::string& directory);

/// A line of the manifest for the file at `path`, which it calls `name`. Throws Error(files) if it cannot be read.
std::string manifest_line(const std::string& path, const std::string& name);

/// Replaces the manifest of `directory` in one step. Throws Error(files).
void write_manifest(const std::string& directory, std::vector<std::string> lines);

}  // namespace bert_hpc::prep
