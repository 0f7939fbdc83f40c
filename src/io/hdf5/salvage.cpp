// Closes a file that can no longer be written (full disk, quota, a limit). The library (1.10.8) cannot: closing fails,
// the file stays open inside it, and its clean-up at exit tries again and crashes, which would turn our exit status
// into a signal. So after the first failed write the file's descriptor is redirected to anonymous memory: the library
// finishes there and forgets the file, and the caller knows that the file is incomplete.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "detail.hpp"

namespace bert_hpc::io::detail {

namespace {

constexpr const char* memory_name = "bert_hpc-lost";

/// The descriptor of the file that contains `object`, or −1 if it has none.
int descriptor_of(std::int64_t object) {
  const Hdf5Handle file(H5Iget_file_id(object), close_file);
  if (file.id() < 0) return -1;
  const Hdf5Handle access(H5Fget_access_plist(file.id()), close_properties);
  if (H5Pget_driver(access.id()) != H5FD_SEC2) return -1;
  void* descriptor = nullptr;
  if (H5Fget_vfd_handle(file.id(), access.id(), &descriptor) < 0 || descriptor == nullptr) return -1;
  return *static_cast<int*>(descriptor);
}

}  // namespace

void divert_to_memory(std::int64_t object) noexcept {
  const int descriptor = descriptor_of(object);
  if (descriptor < 0) return;
  const int memory = memfd_create(memory_name, MFD_CLOEXEC);
  if (memory < 0) return;
  dup3(memory, descriptor, O_CLOEXEC);
  ::close(memory);
}

bool is_diverted(std::int64_t object) noexcept {
  const int descriptor = descriptor_of(object);
  char target[64] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  if (descriptor < 0 || readlink(link.c_str(), target, sizeof target - 1) < 0) return false;
  return std::string(target).find(memory_name) != std::string::npos;
}

}  // namespace bert_hpc::io::detail
