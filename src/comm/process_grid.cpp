#include "bert_hpc/comm/process_grid.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::comm {
namespace {

constexpr int largest_direction = 1 << 20;  // three of them multiply within 64 bits

bool within(const GridShape& shape, const GridLimits& limits) {
  return (limits.stages == 0 || shape.pipeline <= limits.stages) &&
         (limits.heads == 0 || limits.heads % shape.tensor == 0) &&
         (limits.intermediate == 0 || limits.intermediate % shape.tensor == 0) &&
         (limits.vocabulary == 0 || shape.tensor <= limits.vocabulary) &&
         (!limits.power_of_two_data || std::has_single_bit(static_cast<unsigned>(shape.data)));
}

double distance(int requested, int size) {
  return requested == 0 ? 0 : std::abs(std::log2(static_cast<double>(size) / requested));
}

double distance(const GridShape& requested, const GridShape& shape) {
  return distance(requested.data, shape.data) + distance(requested.pipeline, shape.pipeline) +
         distance(requested.tensor, shape.tensor);
}

/// "there is 1 rank", "there are 8 ranks"
std::string ranks_there(int ranks) {
  return (ranks == 1 ? "there is " : "there are ") + core::counted(ranks, "rank");
}

/// The remedy, as the end of a message.
std::string cure(const GridShape& requested, int ranks, const GridLimits& limits) {
  std::string text;
  for (const GridShape& shape : nearest_grids(requested, ranks, limits, 3)) {
    text += "\n     " + describe(shape);
  }
  const std::string there = core::counted(ranks, "rank");
  if (text.empty()) return "No layout of " + there + " is valid: start another number of ranks.";
  return "Closest valid layouts of " + there + ':' + text;
}

[[noreturn]] void refuse(const std::string& problem, const GridShape& requested, int ranks, const GridLimits& limits) {
  throw core::Error(core::ExitCode::input, problem + ". " + cure(requested, ranks, limits));
}

/// The direction that is 0, if exactly one is.
int* open_direction(GridShape& shape) {
  int* open = nullptr;
  for (int* size : {&shape.data, &shape.pipeline, &shape.tensor}) {
    if (*size < 0 || *size > largest_direction) {
      throw core::Error(core::ExitCode::input, "[parallel] " + describe(shape) + ": each is at least 0 and at most " +
                                                   core::with_commas(largest_direction) + '.');
    }
    if (*size != 0) continue;
    if (open != nullptr) {
      throw core::Error(core::ExitCode::input,
                        "[parallel] " + describe(shape) +
                            ": only one of the three can be 0, which takes the ranks that are left (data is 0 where "
                            "it is not given): write the others as numbers.");
    }
    open = size;
  }
  return open;
}

}  // namespace

GridCoordinates coordinates(const GridShape& shape, int rank) {
  const int row = rank / shape.tensor;
  return {row % shape.data, row / shape.data, rank % shape.tensor};
}

int rank_at(const GridShape& shape, GridCoordinates at) {
  return (at.pipeline * shape.data + at.data) * shape.tensor + at.tensor;
}

GridShape resolve_grid(GridShape requested, int ranks, const GridLimits& limits) {
  GridShape shape = requested;
  int* const open = open_direction(shape);
  const std::int64_t given = std::int64_t{open == &shape.data ? 1 : shape.data} *
                             (open == &shape.pipeline ? 1 : shape.pipeline) *
                             (open == &shape.tensor ? 1 : shape.tensor);
  if (open != nullptr) {
    if (ranks % given != 0) {
      refuse("[parallel] " + describe(requested) + " needs a multiple of " + core::counted(given, "rank") + ", but " +
                 ranks_there(ranks),
             requested, ranks, limits);
    }
    *open = static_cast<int>(ranks / given);
  } else if (given != ranks) {
    refuse(
        "[parallel] " + describe(requested) + " needs " + core::counted(given, "rank") + ", but " + ranks_there(ranks),
        requested, ranks, limits);
  }
  if (limits.stages > 0 && shape.pipeline > limits.stages) {
    refuse("[parallel] pipeline = " + std::to_string(shape.pipeline) +
               " is too many: the model can be cut into at most " + core::counted(limits.stages, "stage"),
           shape, ranks, limits);
  }
  if (limits.heads > 0 && limits.heads % shape.tensor != 0) {
    refuse("[parallel] tensor = " + std::to_string(shape.tensor) + " does not divide the model's " +
               core::counted(limits.heads, "attention head") + (limits.heads_are_of_keys ? " of keys and values" : ""),
           shape, ranks, limits);
  }
  if (limits.intermediate > 0 && limits.intermediate % shape.tensor != 0) {
    refuse("[parallel] tensor = " + std::to_string(shape.tensor) + " does not divide the model's intermediate_size, " +
               std::to_string(limits.intermediate),
           shape, ranks, limits);
  }
  if (limits.vocabulary > 0 && shape.tensor > limits.vocabulary) {
    refuse("[parallel] tensor = " + std::to_string(shape.tensor) + " exceeds the size of the model's vocabulary, " +
               std::to_string(limits.vocabulary),
           shape, ranks, limits);
  }
  if (!within(shape, limits)) {
    refuse(
        "[run] reproducible needs a power of two of data-parallel replicas, but data = " + std::to_string(shape.data),
        shape, ranks, limits);
  }
  return shape;
}

std::vector<GridShape> nearest_grids(GridShape requested, int ranks, const GridLimits& limits, std::size_t most) {
  std::vector<GridShape> grids;
  for (int data = 1; data <= ranks; ++data) {
    if (ranks % data != 0) continue;
    for (int pipeline = 1; pipeline <= ranks / data; ++pipeline) {
      const GridShape shape{data, pipeline, ranks / data / pipeline};
      if (ranks / data % pipeline == 0 && within(shape, limits)) grids.push_back(shape);
    }
  }
  // Among equally near grids, those that split the model least come first.
  std::stable_sort(grids.begin(), grids.end(), [&](const GridShape& a, const GridShape& b) {
    const double to_a = distance(requested, a), to_b = distance(requested, b);
    if (std::abs(to_a - to_b) > 1e-9) return to_a < to_b;
    return std::pair(a.tensor, a.pipeline) < std::pair(b.tensor, b.pipeline);
  });
  if (grids.size() > most) grids.resize(most);
  return grids;
}

std::string describe(const GridShape& shape) {
  return "data = " + std::to_string(shape.data) + ", pipeline = " + std::to_string(shape.pipeline) +
         ", tensor = " + std::to_string(shape.tensor);
}

}  // namespace bert_hpc::comm
