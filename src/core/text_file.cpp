#include "bert_hpc/core/text_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "bert_hpc/core/descriptor.hpp"

namespace bert_hpc::core {

std::string read_text_file(const std::string& path, std::int64_t max_bytes, ExitCode code) {
  const auto fail = [&](const std::string& doing, const std::string& reason) {
    throw Error(code, "Cannot " + doing + " '" + path + "': " + reason + ".");
  };
  // O_NONBLOCK opens a pipe without a writer immediately; the check below then rejects it.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) fail("open", std::strerror(errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail("read", std::strerror(errno));
  if (S_ISDIR(status.st_mode)) fail("read", std::strerror(EISDIR));
  if (!S_ISREG(status.st_mode)) fail("read", "it is not a regular file");
  std::string text;
  std::string block(std::size_t{1} << 16, '\0');
  for (;;) {
    const ssize_t got = ::read(file.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", std::strerror(errno));
    if (got == 0) return text;
    text.append(block, 0, static_cast<std::size_t>(got));
    if (static_cast<std::int64_t>(text.size()) > max_bytes) {
      fail("read", "it is longer than the " + std::to_string(max_bytes) + " bytes expected at most");
    }
  }
}

}  // namespace bert_hpc::core
