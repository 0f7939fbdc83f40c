// The L2 norm of a gradient that many ranks hold in parts. Squares are summed in blocks of ops::norm_block elements,
// counted from the begin of each parameter (of each run of joined parameters). In reproducible mode every block of the
// whole model has its element of one vector, which its only owner fills; one all-reduce completes the vector (adding
// zeros is exact) and every rank adds it up in the same order. The bits then depend neither on ranks nor on stages nor
// on shards. In fast mode a rank adds up its own blocks, and one number is reduced.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/ops/gradient_squares.hpp"

namespace bert_hpc::train {

/// A range of the arena that this rank updates, and where its summed gradients lie.
struct OwnedRange {
  std::int64_t begin = 0, size = 0;
  float* gradient = nullptr;  ///< (size)
  /// Known zeros of the gradient (ops/flat.hpp), or null.
  std::uint8_t* marks = nullptr;
  core::Bf16* narrow_gradient = nullptr;  ///< the gradient, where it is stored in bf16; `gradient` is null then
};

/// Calls use(floats, first element's offset in the range) for each part of the range [begin, begin + size) of the arena
/// that the pieces hold, whose gradients are floats there.
template <class Use>
void for_held_parts(std::span<const OwnedRange> pieces, std::int64_t begin, std::int64_t size, const Use& use) {
  for (const OwnedRange& piece : pieces) {
    const std::int64_t first = std::max(begin, piece.begin), end = std::min(begin + size, piece.begin + piece.size);
    if (first >= end) continue;
    use(std::span(piece.gradient + (first - piece.begin), static_cast<std::size_t>(end - first)), first - begin);
  }
}

/// Whose gradients make up the norm, and where this rank's part of the model stands in the whole.
struct NormScope {
  comm::Communicator* all_ranks = nullptr;  ///< all ranks that hold a part of the gradient
  std::int64_t blocks = 0;                  ///< of the whole model
  /// By slice: the index of its first block in the whole model; −1 if another rank counts it. Of joined slices the
  /// first reports for all.
  std::vector<std::int64_t> first_block;
  /// The slices whose gradients measurements of noise leave out (train/efficiency.hpp), ascending.
  std::vector<std::size_t> without_noise{};
};

/// `local` are slices of one stage, `model` the parameters of the whole model in order. Copies of other parameters and
/// frozen ones are not counted, and what every rank of a tensor group has whole is counted by the first of them. Throws
/// Error(internal) where a counted slice is not in the model. Measurements of noise leave out the parameters of
/// these names. Pure.
NormScope norm_scope(const std::vector<core::ParameterSlice>& local, const std::vector<core::ParameterSpec>& model,
                     comm::Communicator& all_ranks, int tensor_rank = 0,
                     const std::vector<std::string>& without_noise = {});
/// Elements [begin, end) of the arena whose gradients this rank counts in measurements of noise; ascending, neighbours
/// joined. Pure.
struct ArenaRange {
  std::int64_t begin = 0, end = 0;

  bool operator==(const ArenaRange&) const = default;
};
std::vector<ArenaRange> noise_ranges(const std::vector<core::ParameterSlice>& local, const NormScope& scope);
/// Scope of a rank whose `local` slices are the whole model, which `all_ranks` share.
NormScope whole_model_scope(const std::vector<core::ParameterSlice>& local, comm::Communicator& all_ranks);

class GradientNorm {
 public:
  /// `parts` are the ranges of the summed gradient that this rank counts: no element is in two ranks' parts. In
  /// reproducible mode they begin and end at blocks of slices.
  GradientNorm(const core::ParameterStore& parameters, const NormScope& scope, std::span<const OwnedRange> parts,
               bool reproducible);

  /// The norm, in two parts: start() launches the sums and their copy to the host, and does not wait; result() is
  /// collective over scope.all_ranks and takes the host's copy. Wait for the kernels between them.
  /// Not where reproducible, start() also leaves at factor(), in device memory, what an update multiplies this rank's
  /// gradient by (ops/gradient_squares.hpp; gradients are `scale` times the true ones): right where is_alone().
  void start(ops::ClippingSums sums = {}, double max_norm = 0, double scale = 1);
  double result();
  /// Both, and the wait.
  double operator()();

  bool is_reproducible() const { return reproducible_; }
  /// No other rank counts a part, and no order of sums is prescribed.
  bool is_alone() const { return !reproducible_ && all_ranks_.size() == 1; }
  const float* factor() const { return factor_.data(); }
  /// Not where reproducible: the square of the norm of this rank's parts alone, after start() and a wait.
  double own_squares() const { return *squares_.host(); }

  /// Σ g² of this rank's parts of what measurements of noise leave out; a wait is to be between the two.
  void start_left_out();
  double left_out() const;

 private:
  comm::Communicator& all_ranks_;
  bool reproducible_;
  ops::SquareRanges runs_, without_noise_;
  core::MirroredArray<double> partials_, left_out_;
  core::MirroredArray<double> squares_;  // (1)
  core::Buffer<float> factor_;           // (1)
};

}  // namespace bert_hpc::train
