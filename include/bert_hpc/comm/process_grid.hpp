// The grid of ranks, data × pipeline × tensor, as pure arithmetic: the coordinates of each rank, and the grids that fit
// a number of ranks. Ranks are numbered along tensor first, then data, then pipeline, so that the directions with the
// most traffic stay within a node (the order of Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
// Clusters Using Megatron-LM", 2021).
#pragma once

#include <string>
#include <vector>

namespace bert_hpc::comm {

struct GridShape {
  int data = 1, pipeline = 1, tensor = 1;

  int ranks() const { return data * pipeline * tensor; }
  bool operator==(const GridShape&) const = default;
};

struct GridCoordinates {
  int data = 0, pipeline = 0, tensor = 0;

  bool operator==(const GridCoordinates&) const = default;
};

/// The coordinates of a rank: rank = (pipeline · shape.data + data) · shape.tensor + tensor, 0 ≤ rank < shape.ranks().
GridCoordinates coordinates(const GridShape& shape, int rank);
int rank_at(const GridShape& shape, GridCoordinates at);

/// Limits that a model and the summation order impose on a grid; 0: no limit.
struct GridLimits {
  int stages = 0;                  ///< largest pipeline size
  int heads = 0;                   ///< attention heads, divisible by tensor
  bool heads_are_of_keys = false;  ///< these are the heads of keys and values, which those of queries share
  int intermediate = 0;            ///< feed-forward width, divisible by tensor
  int vocabulary = 0;              ///< rows of the word embeddings, the largest tensor size
  bool power_of_two_data = false;  ///< data is a power of two, for reproducible sums
};

/// The grid of all `ranks`. One direction of `requested` may be 0 and gets the remaining factor. Throws Error(input)
/// that names the nearest grids if the grid does not fit the ranks or the limits.
GridShape resolve_grid(GridShape requested, int ranks, const GridLimits& limits = {});

/// Grids of exactly `ranks` within the limits, the nearest to `requested` first, at most `most`. The distance is the
/// sum over the directions of |log2 of the ratio of their sizes|; a requested 0 has distance 0 to every size.
std::vector<GridShape> nearest_grids(GridShape requested, int ranks, const GridLimits& limits, std::size_t most);

/// "data = 2, pipeline = 2, tensor = 1", in the form of an input file.
std::string describe(const GridShape& shape);

}  // namespace bert_hpc::comm
