#include "bert_hpc/io/provenance.hpp"

#include <unistd.h>
#include <zlib.h>

#include <cstdio>

#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/io/hdf5.hpp"
#include "descriptor.hpp"

namespace bert_hpc::io {

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "unknown";
  return name;
}

std::string utc_text(std::time_t time) {
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, length};
}

std::string utc_now() {
  return utc_text(std::time(nullptr));
}

std::string fnv1a_of_file(const std::string& path, core::ExitCode code) {
  const detail::Descriptor file(path, O_RDONLY);
  if (!file.valid()) detail::fail_with_errno(code, "open", path);
  std::uint64_t hash = core::fnv1a_start;
  const bool read = file.read_blocks(std::size_t{1} << 20, [&](const char* block, std::size_t size) {
    hash = core::fnv1a_64({block, size}, hash);
  });
  if (!read) detail::fail_with_errno(code, "read", path);
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

std::vector<std::pair<std::string, std::string>> collect_provenance(
    std::vector<std::pair<std::string, std::string>> more) {
  std::vector<std::pair<std::string, std::string>> all = {
    {"HDF5", hdf5_version()},
    {"zlib", zlibVersion()},
#if defined(__VERSION__)
    {"compiler", __VERSION__},
#endif
    {"host", host_name()},
  };
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace bert_hpc::io
