#include "bert_hpc/io/provenance.hpp"

#include <unistd.h>
#include <zlib.h>

#include <ctime>

#include "bert_hpc/io/hdf5/hdf5.hpp"

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
