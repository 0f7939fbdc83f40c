// Memory that the ranks of a node share, for data that each of them would else have a copy of. Its pages exist once
// they are written, so that a large and hardly used one costs nothing.
#pragma once

#include <cstddef>
#include <span>

#include "bert_hpc/comm/mpi_communicator.hpp"

namespace bert_hpc::comm {

class NodePages {
 public:
  /// Collective over all ranks; MPI must be initialised. Where the ranks of a node cannot map each other's memory, as
  /// in containers of their own, each has its own. Throws std::bad_alloc where there is no memory.
  explicit NodePages(std::size_t bytes);
  ~NodePages();
  NodePages(const NodePages&) = delete;
  NodePages& operator=(const NodePages&) = delete;

  /// Zeroed, aligned to a page.
  std::span<std::byte> memory() const { return {begin_, bytes_}; }
  /// Among the ranks that share it.
  const NodePosition& position() const { return position_; }

 private:
  std::byte* begin_ = nullptr;
  std::size_t bytes_;
  NodePosition position_;
};

}  // namespace bert_hpc::comm
