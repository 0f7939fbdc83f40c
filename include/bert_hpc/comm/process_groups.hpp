// The communicators of a grid of ranks: one per direction and groups that combine directions.
#pragma once

#include <memory>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/comm/process_grid.hpp"

namespace bert_hpc::comm {

/// This rank's groups. In `data`, `pipeline` and `tensor` a rank's number is its coordinate in that direction.
struct ProcessGroups {
  GridShape shape;
  GridCoordinates coordinates;
  Communicator& world;                     ///< all ranks
  std::unique_ptr<Communicator> data;      ///< ranks that hold the same parameters
  std::unique_ptr<Communicator> pipeline;  ///< stages that process one micro-batch
  std::unique_ptr<Communicator> tensor;    ///< ranks that share each layer of a stage
  /// All ranks of this replica, pipeline × tensor; rank = coordinates.pipeline · shape.tensor + coordinates.tensor.
  std::unique_ptr<Communicator> replica;
  /// The first stage (rank 0) and the last stage (rank 1) with the same data and tensor coordinates, or one rank if
  /// they are the same; null on intermediate stages.
  std::unique_ptr<Communicator> ends;

  bool first_stage() const { return coordinates.pipeline == 0; }
  bool last_stage() const { return coordinates.pipeline == shape.pipeline - 1; }
};

/// Collective over `world`, which has shape.ranks() ranks and outlives the result.
ProcessGroups make_process_groups(Communicator& world, const GridShape& shape);

}  // namespace bert_hpc::comm
