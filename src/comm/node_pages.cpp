#include "bert_hpc/comm/node_pages.hpp"

#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>

#include "check_mpi.hpp"
#include "node_mapping.hpp"

namespace bert_hpc::comm {
namespace {

class MappedPages final : public NodePages {
 public:
  /// Takes over what mmap() returned.
  MappedPages(void* begin, std::size_t bytes, const NodePlace& place) : begin_(begin), bytes_(bytes), place_(place) {}
  ~MappedPages() override { munmap(begin_, bytes_); }
  MappedPages(const MappedPages&) = delete;
  MappedPages& operator=(const MappedPages&) = delete;

  std::span<std::byte> memory() const override { return {static_cast<std::byte*>(begin_), bytes_}; }
  NodePlace place() const override { return place_; }

 private:
  void* begin_;
  std::size_t bytes_;
  NodePlace place_;
};

std::unique_ptr<NodePages> own_pages(std::size_t bytes) {
  void* const begin = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) throw std::bad_alloc();
  return std::make_unique<MappedPages>(begin, bytes, NodePlace{});
}

/// The ranks of this node.
class Neighbours {
 public:
  Neighbours() {
    int rank = 0;
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &group_),
              "MPI_Comm_split_type");
    check_mpi(MPI_Comm_rank(group_, &place_.rank), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(group_, &place_.ranks), "MPI_Comm_size");
  }
  ~Neighbours() { MPI_Comm_free(&group_); }
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  const NodePlace& place() const { return place_; }
  bool all(bool holds) const {
    int verdict = holds ? 1 : 0;
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &verdict, 1, MPI_INT, MPI_MIN, group_), "MPI_Allreduce");
    return verdict != 0;
  }
  Place of_first(Place mine) const {
    check_mpi(MPI_Bcast(&mine, sizeof mine, MPI_BYTE, 0, group_), "MPI_Bcast");
    return mine;
  }

 private:
  MPI_Comm group_ = MPI_COMM_NULL;
  NodePlace place_;
};

}  // namespace

std::unique_ptr<NodePages> NodePages::make(std::size_t bytes) {
  const Neighbours neighbours;
  const bool creates = neighbours.place().rank == 0;
  core::Descriptor file;
  if (neighbours.place().ranks == 1 || bytes == 0) return own_pages(bytes == 0 ? 1 : bytes);
  if (creates) {
    file = core::Descriptor(memfd_create("bert_hpc_data", MFD_CLOEXEC));
    if (file.valid() && ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) file.reset();
  }
  const Place place = neighbours.of_first(place_of(file.get()));
  if (!creates && place.number >= 0) file = open_at(place);
  void* begin = MAP_FAILED;
  if (file.valid()) begin = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  if (neighbours.all(begin != MAP_FAILED)) return std::make_unique<MappedPages>(begin, bytes, neighbours.place());
  if (begin != MAP_FAILED) munmap(begin, bytes);
  return own_pages(bytes);
}

}  // namespace bert_hpc::comm
