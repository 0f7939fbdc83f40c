#include "bert_hpc/core/own_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "bert_hpc/core/descriptor.hpp"

namespace bert_hpc::core {
namespace {

int opened(const std::string& path, int flags) {
  int file = -1;
  do {
    file = ::open(path.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, 0666);
  } while (file < 0 && errno == EINTR);
  return file;
}

}  // namespace

int create_own_file(const std::string& path, int flags) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return -1;
  return opened(path, O_WRONLY | O_CREAT | O_EXCL | flags);
}

int open_own_file(const std::string& path, int flags) {
  Descriptor file(opened(path, flags | O_NONBLOCK));
  if (!file.valid()) return -1;
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return -1;
  const bool regular = S_ISREG(status.st_mode);
  if (regular ? status.st_nlink > 1 : !S_ISCHR(status.st_mode)) {  // a device, as /dev/null, keeps nothing
    errno = regular ? EMLINK : ENXIO;
    return -1;
  }
  return file.release();
}

}  // namespace bert_hpc::core
