// Pieces of whole tensors, identified by name and position, independent of the rank that holds them. Checkpoints are
// written and read in these terms, so any layout (ranks, data × pipeline × tensor, ZeRO) can read the files of any
// other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "bert_hpc/core/parameter_store.hpp"

namespace bert_hpc::core {

/// Name and shape of a whole tensor, and whether a training changes it.
struct WholeTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  bool trainable = true;

  std::int64_t elements() const { return elements_of(shape); }
  bool operator==(const WholeTensor&) const = default;
};

/// `count` runs of `length` contiguous elements of the whole tensor number `tensor`: run r begins at element first +
/// r·stride.
struct TensorPiece {
  std::int64_t tensor = 0;
  std::int64_t first = 0, length = 0, count = 1, stride = 0;

  std::int64_t elements() const { return length * count; }
  bool operator==(const TensorPiece&) const = default;
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.tensor, self.first, self.length, self.count, self.stride);
  }
};

/// Whether the pieces cover every element of a tensor of `elements` elements exactly once. Each piece lies inside the
/// tensor; pieces of several runs must have one common stride, the tensor's row. Pure.
bool cover_once(std::int64_t elements, std::span<const TensorPiece> pieces);

/// A piece whose elements are contiguous in a parameter store, from index `arena` on.
struct ArenaPiece {
  TensorPiece piece;
  std::int64_t arena = 0;
};

/// A range of a store's arena.
struct ArenaRange {
  std::int64_t begin = 0, size = 0;
};

/// The elements [begin, end) of a slice (indices within the slice) as at most three pieces of the whole tensor. Pure.
std::vector<ArenaPiece> pieces_of(const ParameterSlice& slice, std::int64_t tensor, std::int64_t begin,
                                  std::int64_t end);

/// The pieces that this rank saves of `ranges` of its arena. Copies of other parameters are left out. Tensors that all
/// ranks of a tensor group hold whole are divided: each rank saves every tensor_ranks-th slice. `tensors` are those of
/// the whole model. Throws Error(internal) if a slice is not among them or has another shape. Pure.
std::vector<ArenaPiece> pieces_to_save(const std::vector<ParameterSlice>& slices, std::span<const WholeTensor> tensors,
                                       std::span<const ArenaRange> ranges, int tensor_rank, int tensor_ranks);

/// The elements [begin, end) of a slice that must be loaded; they lie in the elements [first, last) of the whole
/// tensor. Copies load from their original. parts_to_load() takes arguments like pieces_to_save() but leaves nothing
/// out. Pure.
struct WantedPart {
  std::int64_t tensor = 0, first = 0, last = 0;
  std::vector<ArenaPiece> pieces;
};
std::vector<WantedPart> parts_to_load(const std::vector<ParameterSlice>& slices, std::span<const WholeTensor> tensors,
                                      std::span<const ArenaRange> ranges);

}  // namespace bert_hpc::core
