// What this rank saves of parameters and optimizer states, copied to host memory between two steps, so that a thread
// can write it while the training continues.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/core/tensor_piece.hpp"
#include "bert_hpc/io/checkpoint_file.hpp"
#include "bert_hpc/train/optimizer_states.hpp"

namespace bert_hpc::app {

/// Names of the datasets of a state in blocks.
std::string codes_name(const ops::StateTensor& state);
std::string scales_name(const ops::StateTensor& state);

/// What a checkpoint keeps of elements, in the order of its datasets: parameters, then each state, in blocks as small
/// numbers, codes and scales.
std::vector<io::QuantityKind> quantities_of(std::span<const ops::StateTensor> states);

class Snapshot {
 public:
  /// Allocates for `pieces`. All must outlive the snapshot.
  Snapshot(std::span<const core::ArenaPiece> pieces, const core::ParameterStore& parameters,
           const train::OptimizerStates& states);

  /// Replaces what was copied before. Waits for the kernels.
  void copy();
  /// What write_checkpoint_file() takes, of the last copy.
  std::vector<io::Quantity> quantities() const;
  /// Elements of the pieces.
  std::int64_t elements() const { return elements_; }

 private:
  struct Contents {
    core::Buffer<float> numbers;
    core::Buffer<std::uint8_t> codes;
  };
  bool has_states(const core::ArenaPiece& piece) const { return piece.arena < parameters_.trainable_size(); }
  void copy_states(const core::ArenaPiece& piece, std::vector<std::int64_t>& next);
  void copy_floats(std::size_t quantity, std::span<const float> from, std::vector<std::int64_t>& next);

  std::span<const core::ArenaPiece> pieces_;
  const core::ParameterStore& parameters_;
  const train::OptimizerStates& states_;
  std::vector<io::QuantityKind> kinds_;
  std::int64_t elements_ = 0;
  std::vector<Contents> contents_;    // by quantity
  std::vector<std::uint8_t> phases_;  // by piece, where any state is in blocks
};

}  // namespace bert_hpc::app
