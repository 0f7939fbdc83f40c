// The groups of every grid that 1, 2 or 4 ranks can form.
#include <catch2/catch_test_macros.hpp>
#include <numeric>
#include <vector>

#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/comm/process_groups.hpp"
#include "support/world.hpp"

using namespace bert_hpc;

namespace {

using test::world;

/// True if it holds on every rank.
bool everywhere(bool holds) {
  return !world().any(!holds);
}

/// The world's ranks of a group, in the order of the group.
std::vector<int> members(comm::Communicator& group) {
  const int mine = world().rank();
  std::vector<int> all(static_cast<std::size_t>(group.size()));
  group.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  return all;
}

}  // namespace

TEST_CASE("split makes groups by color, in the order of key, and none for a negative color") {
  const int rank = world().rank(), size = world().size();
  const auto reversed = world().split(7, -rank);
  std::vector<int> expected(static_cast<std::size_t>(size));
  std::iota(expected.rbegin(), expected.rend(), 0);
  CHECK(everywhere(reversed && members(*reversed) == expected && reversed->rank() == size - 1 - rank));

  const auto half = world().split(rank % 2, 0);
  std::vector<int> same_parity;
  for (int r = rank % 2; r < size; r += 2) same_parity.push_back(r);
  CHECK(everywhere(half && members(*half) == same_parity));

  const auto some = world().split(rank == 0 ? 0 : -1, 0);
  CHECK(everywhere((some != nullptr) == (rank == 0)));
  const auto alone = comm::make_self_communicator();
  CHECK(everywhere(alone->split(3, 0)->size() == 1 && alone->split(-1, 0) == nullptr));
}

TEST_CASE("each rank finds itself in the groups of its row, column and replica of every grid") {
  const int size = world().size();
  for (int data = 1; data <= size; data *= 2) {
    for (int pipeline = 1; data * pipeline <= size; pipeline *= 2) {
      const comm::GridShape shape{data, pipeline, size / data / pipeline};
      const comm::ProcessGroups groups = comm::make_process_groups(world(), shape);
      const comm::GridCoordinates at = comm::coordinates(shape, world().rank());
      // All ranks whose coordinates differ from this rank's in the given directions only, by rank.
      const auto along = [&](bool any_data, bool any_pipeline, bool any_tensor) {
        std::vector<int> ranks;
        for (int r = 0; r < size; ++r) {
          const comm::GridCoordinates other = comm::coordinates(shape, r);
          if ((any_data || other.data == at.data) && (any_pipeline || other.pipeline == at.pipeline) &&
              (any_tensor || other.tensor == at.tensor)) {
            ranks.push_back(r);
          }
        }
        return ranks;
      };
      CHECK(everywhere(groups.coordinates == at && groups.data->rank() == at.data &&
                       groups.pipeline->rank() == at.pipeline && groups.tensor->rank() == at.tensor));
      CHECK(everywhere(members(*groups.data) == along(true, false, false)));
      CHECK(everywhere(members(*groups.pipeline) == along(false, true, false)));
      CHECK(everywhere(members(*groups.tensor) == along(false, false, true)));
      CHECK(everywhere(members(*groups.replica) == along(false, true, true)));
      const std::vector<int> stages = along(false, true, false);
      const bool is_end = groups.first_stage() || groups.last_stage();
      std::vector<int> ends = {stages.front()};
      if (stages.size() > 1) ends.push_back(stages.back());
      CHECK(everywhere(is_end ? groups.ends && members(*groups.ends) == ends : groups.ends == nullptr));
    }
  }
}
