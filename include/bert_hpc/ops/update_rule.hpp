// The formula of an optimizer: what becomes of parameters and of the states that the optimizer keeps of them, given
// gradients. An optimizer is one file of src/ops/optimizers, with its name, its keys in the input, its states and its
// formula, and one line of registry.cpp. What all have in common (ranges that a rank owns, clipping, host memory,
// skipped steps) is train/optimizer.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/data_type.hpp"
#include "bert_hpc/core/number_setting.hpp"
#include "bert_hpc/core/postponed_updates.hpp"
#include "bert_hpc/ops/dynamic8.hpp"
#include "bert_hpc/ops/flat.hpp"

namespace bert_hpc::ops {

/// How a state is stored: in fp32, or, of large tensors
/// (core/state_blocks.hpp), in blocks of 8-bit numbers (dynamic8.hpp).
enum class StateForm { fp32, signed_blocks, unsigned_blocks };

/// A number that an optimizer keeps of every parameter from step to step, zero at first.
struct StateTensor {
  std::string name;  ///< of its dataset in checkpoints
  StateForm form = StateForm::fp32;

  bool in_blocks() const { return form != StateForm::fp32; }
};

/// Whether an optimizer with these states keeps any in blocks. It then keeps all of them so.
bool have_blocks(std::span<const StateTensor> states);
/// Bytes of the states of `elements` elements, `in_blocks` of which are of tensors that are kept in blocks.
std::int64_t bytes_of_states(std::span<const StateTensor> states, std::int64_t elements, std::int64_t in_blocks);
/// Bytes of all states of one parameter of a large tensor.
double bytes_per_parameter(std::span<const StateTensor> states);

inline constexpr std::size_t max_states = 4;

/// A state of neighbouring parameters in blocks: (size) codes and the scale of each block of dynamic8::block.
struct StateBlocks {
  std::uint8_t* codes = nullptr;
  float* scales = nullptr;
};

/// A range of parameters with its gradient, states, known zeros (or null) and rounded copy (or null), all of `size`
/// elements in device memory.
struct UpdateRange {
  float *value = nullptr, *gradient = nullptr;
  std::array<float*, max_states> states{};  ///< in the order of OptimizerKind::states
  std::uint16_t* copy = nullptr;
  std::uint8_t* marks = nullptr;
  std::int64_t size = 0;
  bool decay = true;   ///< false for biases and layer norms
  bool clears = true;  ///< false: the gradient stays as it is, as the next step replaces it; such ranges have no marks
  /// The gradient, where it is stored in bf16; `gradient` is null then. Such ranges are not cleared.
  const core::Bf16* narrow_gradient = nullptr;
  // For rules with tensor norms:
  std::int64_t tensor = 0;       ///< whose range it is, an index into UpdateStep::tensor_scales
  std::int64_t first_block = 0;  ///< where the sums of its first block of norm_block elements go
  std::int64_t phase = 0;        ///< elements of that block that lie before the range
  /// Instead of `states`, where they are kept in blocks. Such a range begins with a block.
  std::array<StateBlocks, max_states> blocks{};
  std::int64_t begin = 0;  ///< element of the arena that the range begins with, for updates that are postponed
};

/// The same in host memory, of gradients in fp32.
struct HostRange {
  std::span<float> value, gradient;
  std::array<std::span<float>, max_states> states{};
  bool decay = true;
  std::int64_t tensor = 0, first_block = 0, phase = 0;
  std::array<StateBlocks, max_states> blocks{};
};

struct UpdateStep {
  double learning_rate = 0;
  std::int64_t number = 1;   ///< of the update, from 1
  float gradient_scale = 1;  ///< multiplies every gradient first: clipping, and loss scaling undone
  /// Weight decay is a part of the gradient (L2 regularization), instead of separate from it.
  bool coupled_decay = false;
  /// UpdateRanges: what stands there when the kernel runs is taken for gradient_scale; if it is NaN, gradients are
  /// zeroed and nothing else changes. Device memory, or null.
  const float* device_scale = nullptr;
  /// For rules with tensor norms: tensor_scale() by tensor, in the memory of the ranges.
  const float* tensor_scales = nullptr;
};

/// Ranges that are updated together: one kernel for all of them, which takes pieces of equal size. A model has a
/// hundred ranges with and without weight decay in turn, most of them small.
class UpdateRanges {
 public:
  UpdateRanges() = default;
  /// Their memory must outlive this. Copies are of type `copies`.
  explicit UpdateRanges(std::span<const UpdateRange> ranges, core::DataType copies = core::DataType::bf16);

  std::size_t size() const { return first_piece_.empty() ? 0 : first_piece_.size() - 1; }

  /// Elements [begin, begin + count) of a range.
  struct Piece {
    std::int64_t range = 0, begin = 0, count = 0;
  };
  // For rules: ranges and pieces in device memory. Those of ranges [first, last) are pieces [piece_of(first),
  // piece_of(last)); blocks end where the sum of another tensor begins.
  const UpdateRange* ranges() const { return ranges_.data(); }
  const Piece* pieces() const { return pieces_.data(); }
  const core::Buffer<Piece>& blocks() const { return blocks_; }
  /// Throws Error(internal) if there are not so many ranges.
  std::int64_t piece_of(std::size_t range) const;
  core::DataType copies() const { return copies_; }
  /// Least bytes that an update of ranges [first, last) moves: gradients that are known to be zero are not read, so
  /// those of ranges with marks do not count.
  double bytes(std::size_t first, std::size_t last) const;

 private:
  core::DataType copies_ = core::DataType::bf16;
  core::Buffer<UpdateRange> ranges_;
  core::Buffer<Piece> pieces_, blocks_;
  std::vector<std::int64_t> first_piece_;  // by range, and one more
  std::vector<std::int64_t> bytes_;        // of the ranges before, likewise
};

/// Blocks of norm_block elements that a range of so many elements, `phase` of whose first block lie before it, touches.
constexpr std::int64_t blocks_touched(std::int64_t phase, std::int64_t elements) {
  return (phase + elements + norm_block - 1) / norm_block;
}

/// Sums over a whole tensor, which every rank knows.
struct TensorSums {
  double value_squares = 0;   ///< of its values before the update
  double update_squares = 0;  ///< of what the rule's first pass gives for each
  std::int64_t elements = 0;
  bool decay = true;  ///< false for biases and layer norms
};

/// Updates of ranges with marks that wait, line by line, while gradients are zero: until a caller reads the line, until
/// it has a gradient again, or until its turn, which comes every 64 steps, so that each step has the same work. The
/// bits are those of updates at each step.
class PostponedSteps : public core::PostponedUpdates {
 public:
  /// A step of all lines: those with marks get it now; their gradients and marks are cleared.
  virtual void update(const UpdateStep& step) = 0;
};

class UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  /// New parameters, states and copies of ranges [first, last); gradients and their marks are cleared as they say.
  virtual void update(const UpdateStep& step, const UpdateRanges& ranges, std::size_t first,
                      std::size_t last) const = 0;
  /// The same by the host's processors, with CPU kernels the same bits; gradients stay.
  virtual void update_on_host(const UpdateStep& step, const HostRange& range) const = 0;

  /// Takes over the updates of these ranges, which have marks and neither copies nor a phase, from now on. Null if this
  /// rule or build makes every update at once: if an update depends on more than a line and the step, and on GPUs.
  virtual std::unique_ptr<PostponedSteps> postpone(std::span<const UpdateRange> ranges) const;

  /// Whether update() needs norms of whole tensors. Then ranges are parts of one tensor each, and before update()
  /// come begin() for all of them, and tensor_scale() of sums that are complete.
  virtual bool needs_tensor_norms() const { return false; }
  /// Squares of values and of what the first pass gives, summed over each block: sums[2·b] and sums[2·b + 1] for
  /// block b, which a range numbers from first_block on; other sums stay. Memory of the ranges.
  virtual void begin(const UpdateStep& step, const UpdateRanges& ranges, double* sums) const;
  virtual void begin_on_host(const UpdateStep& step, const HostRange& range, double* sums) const;
  /// What an update of a tensor is multiplied by.
  virtual float tensor_scale(const TensorSums& sums) const;
};

/// An optimizer that this program has.
struct OptimizerKind {
  core::NamedSettings input;        ///< [optimizer] name, and its own keys there
  std::vector<StateTensor> states;  ///< at most max_states
  /// `values` in the order of input.settings.
  std::unique_ptr<UpdateRule> (*make)(std::span<const double> values);
};

/// The default first.
const std::vector<OptimizerKind>& optimizer_kinds();
/// "": the default. Throws Error(input) if there is none of that name.
const OptimizerKind& optimizer_kind(const std::string& name);
/// Names and keys of all of them, and of those that are planned, for the reader of inputs.
std::vector<core::NamedSettings> optimizer_inputs();

}  // namespace bert_hpc::ops
