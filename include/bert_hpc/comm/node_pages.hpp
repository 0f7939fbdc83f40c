// Memory that the ranks of a node share, for data that each of them would else have a copy of. Its pages exist once
// they are written, so that a large and hardly used one costs nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "bert_hpc/comm/mpi_communicator.hpp"

namespace bert_hpc::comm {

class NodePages {
 public:
  virtual ~NodePages() = default;

  /// Zeroed, aligned to a page.
  virtual std::span<std::byte> memory() const = 0;
  /// Among the ranks that share it.
  virtual NodePlace place() const = 0;

  /// Collective over all ranks; MPI must be initialised. Where the ranks of a node cannot map each other's memory, as
  /// in containers of their own, each has its own. Throws Error(runtime) where there is no memory.
  static std::unique_ptr<NodePages> make(std::size_t bytes);
};

}  // namespace bert_hpc::comm
