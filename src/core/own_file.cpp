#include "bert_hpc/core/own_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

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

/// Opens a regular file or a character device such as /dev/null; otherwise returns an invalid descriptor and sets
/// errno.
Descriptor opened_ours(const std::string& path, int flags, struct stat& status) {
  Descriptor file(opened(path, flags | O_NONBLOCK));
  if (!file.valid() || ::fstat(file.get(), &status) != 0) return Descriptor();
  const bool regular = S_ISREG(status.st_mode);
  if (regular || S_ISCHR(status.st_mode)) {
    if (!regular || status.st_nlink == 1 || status.st_uid == ::geteuid()) return file;
    errno = EMLINK;
  } else {
    errno = ENXIO;
  }
  return Descriptor();
}

bool copy_all(int from, int to) {
  char block[1 << 16];
  for (;;) {
    const ssize_t got = ::read(from, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
    for (ssize_t done = 0; done < got;) {
      const ssize_t written = ::write(to, block + done, static_cast<std::size_t>(got - done));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return false;
      done += written;
    }
  }
}

/// Replaces the file at `path` by a copy, so that other hard links no longer share it.
bool part_from_other_names(const std::string& path) {
  struct stat status {};
  const Descriptor from = opened_ours(path, O_RDONLY, status);
  const std::string beside = path + ".partial";
  const Descriptor to(from.valid() ? create_own_file(beside) : -1);
  if (!to.valid()) return false;
  if (copy_all(from.get(), to.get()) && ::fchmod(to.get(), status.st_mode & 07777) == 0 && ::fsync(to.get()) == 0 &&
      std::rename(beside.c_str(), path.c_str()) == 0) {
    return true;
  }
  const int reason = errno;
  ::unlink(beside.c_str());
  errno = reason;
  return false;
}

}  // namespace

int create_own_file(const std::string& path, int flags) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return -1;
  return opened(path, O_WRONLY | O_CREAT | O_EXCL | flags);
}

int open_own_file(const std::string& path, int flags) {
  struct stat status {};
  Descriptor file = opened_ours(path, flags, status);
  if (file.valid() && S_ISREG(status.st_mode) && status.st_nlink > 1) {
    file = part_from_other_names(path) ? opened_ours(path, flags, status) : Descriptor();
    if (file.valid() && status.st_nlink > 1) {
      errno = EMLINK;
      return -1;
    }
  }
  return file.release();
}

std::string why_not_own(int error) {
  if (error == ELOOP)
    return "it is a symbolic link, and its target may belong to another user: replace the link with the file itself";
  if (error == EMLINK) return "it is a hard link to another user's file: replace it with a copy";
  if (error == ENXIO) return "it is not a regular file: remove it";
  return std::strerror(error);
}

}  // namespace bert_hpc::core
