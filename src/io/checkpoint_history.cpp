// The metric history of a checkpoint: a separate file, described by integers in the manifest. Older versions neither
// write nor read it.
#include <sys/stat.h>

#include "bert_hpc/io/checkpoint_file.hpp"
#include "bert_hpc/io/checksummed_file.hpp"

namespace bert_hpc::io {
namespace {

using core::ExitCode;
constexpr const char *bytes_name = "history_bytes", *checksum_name = "history_crc32";

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw core::Error(ExitCode::files, "Cannot use '" + path + "' as the metric history of a checkpoint: " + why + '.');
}

}  // namespace

void put_history(CheckpointManifest& manifest, std::int64_t bytes, std::uint32_t checksum) {
  manifest.integers.emplace_back(bytes_name, bytes);
  manifest.integers.emplace_back(checksum_name, std::int64_t{checksum});
}

std::string history_path(const std::string& folder, const CheckpointManifest& manifest) {
  return manifest.has_number(bytes_name) ? folder + '/' + history_name : "";
}

void verify_history(const std::string& folder, const CheckpointManifest& manifest) {
  const std::string path = history_path(folder, manifest);
  if (path.empty()) return;
  refuse_link(path, ExitCode::files);
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) refuse(path, "there is no such file");
  if (!S_ISREG(status.st_mode)) refuse(path, "it is not a regular file");
  const std::int64_t bytes = manifest.integer(bytes_name);
  if (status.st_size != bytes) {
    refuse(path, "it has " + std::to_string(status.st_size) + " bytes, not " + std::to_string(bytes) +
                     " as the manifest says");
  }
  if (file_checksum(path, ExitCode::files) != manifest.integer(checksum_name)) {
    refuse(path, "it is damaged: its content does not match its checksum");
  }
}

}  // namespace bert_hpc::io
