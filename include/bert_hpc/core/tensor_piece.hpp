// Elements of whole tensors under their names and places, whoever holds them: the language in which checkpoints are
// written and read, so that any layout (ranks, data × pipeline × tensor, ZeRO) can read what any other has written.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/core/parameter_store.hpp"

namespace bert_hpc::core {

/// Name and shape of a whole tensor.
struct WholeTensor {
  std::string name;
  std::vector<std::int64_t> shape;

  std::int64_t elements() const { return elements_of(shape); }
  bool operator==(const WholeTensor&) const = default;
};

/// `count` runs of `length` neighbouring elements of the whole tensor number `tensor`: run r begins at its element
/// first + r·stride.
struct TensorPiece {
  std::int64_t tensor = 0;
  std::int64_t first = 0, length = 0, count = 1, stride = 0;

  std::int64_t elements() const { return length * count; }
  bool operator==(const TensorPiece&) const = default;
};

/// Whether the pieces, each inside the tensor of that many elements, hold every element of it once. Runs that are apart
/// have one stride in common, the tensor's row. Pure.
bool cover_once(std::int64_t elements, std::span<const TensorPiece> pieces);

/// A piece whose elements follow each other from `arena` on in a parameter store.
struct PlacedPiece {
  TensorPiece piece;
  std::int64_t arena = 0;
};

/// A range of a store's arena.
struct ArenaRange {
  std::int64_t begin = 0, size = 0;
};

/// The elements [begin, end) of a slice (counted in the slice) as at most three pieces of the whole tensor. Pure.
std::vector<PlacedPiece> pieces_of(const ParameterSlice& slice, std::int64_t tensor, std::int64_t begin,
                                   std::int64_t end);

/// What this rank saves of `ranges` of its arena: copies of other parameters left out; of what all ranks of a tensor
/// group hold whole, each saves every tensor_ranks-th slice. `tensors` are those of the whole model. Throws
/// Error(internal) where a slice is not among them or is of another shape. Pure.
std::vector<PlacedPiece> pieces_to_save(const std::vector<ParameterSlice>& slices, std::span<const WholeTensor> tensors,
                                        std::span<const ArenaRange> ranges, int tensor_rank, int tensor_ranks);

/// A slice's elements [begin, end) that are to be loaded: they lie in the elements [first, last) of the whole tensor;
/// copies come from what they are a copy of. As pieces_to_save() otherwise, but nothing is left out. Pure.
struct WantedPart {
  std::int64_t tensor = 0, first = 0, last = 0;
  std::vector<PlacedPiece> pieces;
};
std::vector<WantedPart> parts_to_load(const std::vector<ParameterSlice>& slices, std::span<const WholeTensor> tensors,
                                      std::span<const ArenaRange> ranges);

}  // namespace bert_hpc::core
