// The grid of ranks, data × pipeline × tensor, as arithmetic only: which rank stands where, and which grids fit a
// number of ranks. Neighbours in tensor, then in data, then in pipeline have neighbouring ranks, so that the directions
// that talk most share a node (the order of Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
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

struct GridPlace {
  int data = 0, pipeline = 0, tensor = 0;

  bool operator==(const GridPlace&) const = default;
};

/// rank = (pipeline · shape.data + data) · shape.tensor + tensor, from 0 to below shape.ranks().
GridPlace place(const GridShape& shape, int rank);
int rank_at(const GridShape& shape, GridPlace place);

/// What a model and a way of summing ask of a grid; 0: nothing.
struct GridLimits {
  int stages = 0;                  ///< pipeline is at most this
  int heads = 0;                   ///< attention heads: tensor divides them
  int intermediate = 0;            ///< width of the feed-forward: tensor divides it
  int vocabulary = 0;              ///< rows of the word embeddings: tensor is at most this
  bool power_of_two_data = false;  ///< for reproducible sums
};

/// The grid of all `ranks`, where one direction of `requested` may be 0 and takes what is left. Throws Error(input)
/// that names the nearest grids if it does not fit the ranks or the limits.
GridShape resolve_grid(GridShape requested, int ranks, const GridLimits& limits = {});

/// Grids of exactly `ranks` within the limits, the nearest to `requested` first (a 0 there is near to anything): the
/// sum over the directions of how many times their sizes differ, in powers of two.
std::vector<GridShape> nearest_grids(GridShape requested, int ranks, const GridLimits& limits, std::size_t most);

/// "data = 2, pipeline = 2, tensor = 1", as an input file says it.
std::string describe(const GridShape& shape);

}  // namespace bert_hpc::comm
