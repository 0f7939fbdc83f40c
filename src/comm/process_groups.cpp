#include "bert_hpc/comm/process_groups.hpp"

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::comm {

ProcessGroups make_process_groups(Communicator& world, const GridShape& shape) {
  core::require(shape.ranks() == world.size(), "process groups: the grid does not fit the ranks");
  const GridCoordinates at = coordinates(shape, world.rank());
  ProcessGroups groups{shape, at, world, nullptr, nullptr, nullptr, nullptr, nullptr};
  groups.data = world.split(at.pipeline * shape.tensor + at.tensor, at.data);
  groups.pipeline = world.split(at.data * shape.tensor + at.tensor, at.pipeline);
  groups.tensor = world.split(at.pipeline * shape.data + at.data, at.tensor);
  groups.replica = world.split(at.data, at.pipeline * shape.tensor + at.tensor);
  const bool is_end = groups.first_stage() || groups.last_stage();
  groups.ends = world.split(is_end ? at.data * shape.tensor + at.tensor : -1, at.pipeline);
  return groups;
}

}  // namespace bert_hpc::comm
