// One pass over flat parameter ranges: AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019) as
// torch.optim.AdamW computes it, and the norm that clipping needs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/cache_line.hpp"
#include "bert_hpc/core/data_type.hpp"
#include "bert_hpc/core/device_memory.hpp"

namespace bert_hpc::ops {

/// Norms are summed in fixed blocks of this many elements, so that their bits do not depend on threads or ranks.
inline constexpr std::int64_t norm_block = 4096;

/// In double, so that 1 − beta2 agrees with the bias correction: the float nearest to 0.999 is off by 1.3e-5 of it.
struct AdamwStep {
  double learning_rate = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;      ///< 0 for ranges without decay
  double bias_correction1 = 1;  ///< 1 − beta1^t, t from 1
  double bias_correction2 = 1;  ///< 1 − beta2^t
  float gradient_scale = 1;     ///< multiplies every gradient first: clipping, and loss scaling undone
  /// AdamwRanges: what stands there when the kernel runs is taken for gradient_scale; if it is NaN, gradients are
  /// zeroed and nothing else changes. Device memory, or null.
  const float* device_scale = nullptr;
};

/// Known zeros of a gradient. A batch touches few rows of a large embedding table; all else of its gradient is zero and
/// is better not read, added up, sent or cleared again. A mark stands for a line of `line` elements, counted from the
/// begin of the range: 0 says that the line holds zeros only, 1 nothing. A range without marks is read in full.
struct GradientMarks {
  static constexpr std::int64_t line = core::floats_of_cache_line;
  std::uint8_t* marks = nullptr;  ///< (ceil(size / line)), or null
};

/// Marks lines [begin, end) / line of every row listed: rows (count) of a table with this many columns, a multiple of
/// `line`, that begins at the begin of the range.
void mark_rows(GradientMarks marks, std::int64_t columns, const std::int32_t* rows, std::int64_t count);
/// Marks rows [0, count).
void mark_first_rows(GradientMarks marks, std::int64_t columns, std::int64_t count);

/// value ← value·(1 − lr·wd) − lr/bc1 · m / (sqrt(v)/sqrt(bc2) + ε) with m, v updated first; gradient ← 0, its
/// marks too. All of one size.
void adamw_update(const AdamwStep& step, std::span<float> value, std::span<float> gradient,
                  std::span<float> first_moment, std::span<float> second_moment, GradientMarks marks = {});

/// A range of parameters with its gradient, moments, known zeros (or null) and rounded copy (or null), all of `size`
/// elements in device memory.
struct AdamwRange {
  float *value = nullptr, *gradient = nullptr, *first_moment = nullptr, *second_moment = nullptr;
  std::uint16_t* copy = nullptr;
  std::uint8_t* marks = nullptr;
  std::int64_t size = 0;
  bool decay = true;   ///< false: without weight decay
  bool clears = true;  ///< false: the gradient stays as it is, as the next step replaces it; such ranges have no marks
  /// The gradient, where it is stored in bf16; `gradient` is null then. Such ranges are not cleared.
  const core::Bf16* narrow_gradient = nullptr;
};

/// Ranges that are updated together: one kernel for all of them, which takes pieces of equal size. A model has a
/// hundred ranges with and without weight decay in turn, most of them small.
class AdamwRanges {
 public:
  AdamwRanges() = default;
  /// Their memory must outlive this. Copies are of type `copies`.
  explicit AdamwRanges(std::span<const AdamwRange> ranges, core::DataType copies = core::DataType::bf16);

  /// adamw_update() of ranges [first, last), with the same bits; new values are rounded into the copies.
  void update(const AdamwStep& step, std::size_t first, std::size_t last) const;
  std::size_t size() const { return first_piece_.empty() ? 0 : first_piece_.size() - 1; }

  /// Elements from `begin` on of a range: public, as nvcc wants types in kernels to be.
  struct Piece {
    std::int64_t range = 0, begin = 0;
  };

 private:
  core::DataType copies_ = core::DataType::bf16;
  core::Buffer<AdamwRange> ranges_;
  core::Buffer<Piece> pieces_;
  std::vector<std::int64_t> first_piece_;  // by range, and one more
};

/// The same in host memory by the host's processors; with CPU kernels the same bits.
void adamw_update_on_host(const AdamwStep& step, std::span<float> value, std::span<float> gradient,
                          std::span<float> first_moment, std::span<float> second_moment);

/// Between kernels' memory and the host's, of one size, with all of the host's threads where both are its own. They
/// wait for the kernels before.
void copy_to_host(std::span<const float> device, std::span<float> host);
void copy_to_device(std::span<const float> host, std::span<float> device);

/// A sum over the elements of a mix of each one's bits and its index: any one changed bit changes it. `partial` (at
/// least ceil(x.size() / norm_block)) is scratch. Waits for the kernels.
std::uint64_t hash_of_bits(std::span<const float> x, const core::MirroredArray<std::uint64_t>& partial);

/// destination += source.
void accumulate(std::span<const float> source, std::span<float> destination);

/// destination = source.
void copy(std::span<const float> source, std::span<float> destination);

/// x = 0, its marks too.
void set_zero(std::span<float> x, GradientMarks marks = {});

}  // namespace bert_hpc::ops
