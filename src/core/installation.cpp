#include "bert_hpc/core/installation.hpp"

#include <filesystem>
#include <system_error>

namespace bert_hpc::core {

namespace fs = std::filesystem;

std::string share_folder_of(const std::string& executable) {
  std::error_code error;
  const fs::path folder = fs::path(executable).parent_path();
  const auto holds_inputs = [&error](const fs::path& share) {
    return fs::is_directory(share / "input", error) && fs::is_directory(share / "jobs", error);
  };
  const fs::path installed = folder.parent_path() / "share" / "bert_hpc";
  if (holds_inputs(installed)) return installed.string();
  const fs::path checkout = folder.parent_path();
  if (holds_inputs(checkout) && fs::exists(checkout / "CMakeLists.txt", error)) return checkout.string();
  return {};
}

std::string share_folder() {
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  return error ? std::string{} : share_folder_of(executable.string());
}

}  // namespace bert_hpc::core
