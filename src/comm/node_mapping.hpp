// The memory files of ranks on a node: how a rank finds and maps the file of another one, with huge pages.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "bert_hpc/core/descriptor.hpp"
#include "node_memory.hpp"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1
#endif

namespace bert_hpc::comm {

inline constexpr std::size_t huge_page = std::size_t{2} << 20;
inline constexpr std::size_t small_page = 4096;  // at most the system's page size

/// Identifies an open file to other processes and lets them verify it. Plain data, sent as bytes.
struct FileAddress {
  std::int64_t process = 0, number = -1;
  std::uint64_t device = 0, inode = 0;
};

inline FileAddress address_of(int number) {
  struct stat facts {};
  if (number < 0 || fstat(number, &facts) != 0) return {};
  return {getpid(), number, facts.st_dev, facts.st_ino};
}

/// Opens another rank's file; returns no descriptor on failure. A rank in its own container has other process numbers,
/// so the path may lead to any file, even this rank's own.
inline core::Descriptor open_at(const FileAddress& address) {
  const std::string path = "/proc/" + std::to_string(address.process) + "/fd/" + std::to_string(address.number);
  core::Descriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  struct stat facts {};
  const bool same =
      file.valid() && fstat(file.get(), &facts) == 0 && facts.st_dev == address.device && facts.st_ino == address.inode;
  return same ? std::move(file) : core::Descriptor();
}

/// A file mapped at an address aligned for huge pages.
class NodeMemory::Mapping {
 public:
  Mapping(int file, std::size_t bytes) : bytes_((bytes + huge_page - 1) / huge_page * huge_page) {
    void* reserved = mmap(nullptr, bytes_ + huge_page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) return;
    reserved_ = static_cast<std::byte*>(reserved);
    const auto address = reinterpret_cast<std::uintptr_t>(reserved_);
    std::byte* const aligned = reserved_ + (huge_page - address % huge_page) % huge_page;
    if (mmap(aligned, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED) begin_ = aligned;
  }
  ~Mapping() {
    if (reserved_ != nullptr) munmap(reserved_, bytes_ + huge_page);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* begin() const { return begin_; }  // null if it could not be mapped
  std::size_t bytes() const { return bytes_; }

  /// Allocates the pages of a range, aligned to huge pages at both ends, in memory near this rank; as huge pages if the
  /// system can, as few systems use them for shared memory unasked. Touching one small page of each huge page
  /// determines the location, so that the system clears each of the other small pages once and copies none.
  void make_pages(std::size_t begin, std::size_t end) const {
    for (std::size_t i = begin; i < end; i += huge_page) begin_[i] = std::byte{0};
    madvise(begin_ + begin, end - begin, MADV_COLLAPSE);
    for (std::size_t i = begin; i < end; i += small_page) begin_[i] = std::byte{0};
  }
  /// Maps the huge pages that other ranks allocated.
  void map_huge_pages() const { madvise(begin_, bytes_, MADV_COLLAPSE); }

 private:
  std::byte* reserved_ = nullptr;
  std::byte* begin_ = nullptr;
  std::size_t bytes_;
};

}  // namespace bert_hpc::comm
