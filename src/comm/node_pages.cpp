#include "bert_hpc/comm/node_pages.hpp"

#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "check_mpi.hpp"
#include "node_mapping.hpp"

namespace bert_hpc::comm {
namespace {

/// Null if it cannot be mapped. `file`: -1 for memory of this rank alone.
std::byte* mapped(int file, std::size_t bytes) {
  const int kind = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* const begin = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind | MAP_NORESERVE, file, 0);
  return begin == MAP_FAILED ? nullptr : static_cast<std::byte*>(begin);
}

/// The ranks of this node.
class Neighbours {
 public:
  Neighbours() {
    int rank = 0;
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &group_),
              "MPI_Comm_split_type");
    check_mpi(MPI_Comm_rank(group_, &position_.rank), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(group_, &position_.ranks), "MPI_Comm_size");
  }
  ~Neighbours() { MPI_Comm_free(&group_); }
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  const NodePosition& position() const { return position_; }
  bool all(bool holds) const {
    int verdict = holds ? 1 : 0;
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &verdict, 1, MPI_INT, MPI_MIN, group_), "MPI_Allreduce");
    return verdict != 0;
  }
  FileAddress of_first(FileAddress mine) const {
    check_mpi(MPI_Bcast(&mine, sizeof mine, MPI_BYTE, 0, group_), "MPI_Bcast");
    return mine;
  }

 private:
  MPI_Comm group_ = MPI_COMM_NULL;
  NodePosition position_;
};

}  // namespace

NodePages::NodePages(std::size_t bytes) : bytes_(std::max<std::size_t>(bytes, 1)) {
  const Neighbours neighbours;
  if (neighbours.position().ranks > 1) {
    const bool creates = neighbours.position().rank == 0;
    core::Descriptor file;
    if (creates) {
      file = core::Descriptor(memfd_create("bert_hpc_data", MFD_CLOEXEC));
      if (file.valid() && ftruncate(file.get(), static_cast<off_t>(bytes_)) != 0) file.reset();
    }
    const FileAddress address = neighbours.of_first(address_of(file.get()));
    if (!creates && address.number >= 0) file = open_at(address);
    if (file.valid()) begin_ = mapped(file.get(), bytes_);
    if (neighbours.all(begin_ != nullptr)) {
      position_ = neighbours.position();
      return;
    }
    if (begin_ != nullptr) munmap(begin_, bytes_);
  }
  begin_ = mapped(-1, bytes_);
  if (begin_ == nullptr) throw std::bad_alloc();
}

NodePages::~NodePages() {
  munmap(begin_, bytes_);
}

}  // namespace bert_hpc::comm
