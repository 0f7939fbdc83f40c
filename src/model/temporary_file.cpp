#include "temporary_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/own_file.hpp"
#include "bert_hpc/io/atomic_write.hpp"

namespace bert_hpc::model {

using core::Error;
using core::ExitCode;

TemporaryFile::TemporaryFile(std::filesystem::path path)
    : path_(std::move(path)), partial_(io::name_beside(path_.string())) {
  descriptor_ = core::create_own_file(partial_);
  if (descriptor_ < 0) fail("be created");
  pending_ = true;
}

TemporaryFile::~TemporaryFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (pending_) ::unlink(partial_.c_str());
}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept
    : path_(std::move(other.path_)),
      partial_(std::move(other.partial_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      pending_(std::exchange(other.pending_, false)) {}

void TemporaryFile::write(const void* bytes, std::size_t count) {
  const char* next = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t written = ::write(descriptor_, next, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("be written");
    next += written;
    count -= static_cast<std::size_t>(written);
  }
}

void TemporaryFile::finish() {
  if (::fsync(descriptor_) != 0) fail("be flushed to disk");
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("be closed");
}

void TemporaryFile::publish() {
  core::require(descriptor_ < 0, "a file must be finished before it is published");
  io::publish(path_.string());
  pending_ = false;
}

void TemporaryFile::fail(const char* what) const {
  throw Error(ExitCode::files, partial_.string() + ": cannot " + what + " (" + std::strerror(errno) +
                                   "). An earlier file of that name is untouched.");
}

}  // namespace bert_hpc::model
