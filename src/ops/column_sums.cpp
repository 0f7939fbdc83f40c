// Sums over rows: gradients of biases, and of the parameters whose sums a backward kernel began (partial sums). A
// launch takes several matrices, because the small ones would cost a launch each.
#include "bert_hpc/ops/column_sums.hpp"

#include "bert_hpc/core/error.hpp"
#include "column_sums_finish.hpp"
#include "kernel.hpp"
#include "kernel_strips.hpp"

namespace bert_hpc::ops {
namespace {

constexpr const char* name = "bert_hpc::ops::column_sums";

double bytes_of(const ColumnSums& sums) {
  return static_cast<double>(sums.x.size()) * static_cast<double>(core::bytes_of(sums.x.type));
}

#if BERT_HPC_WARPS
// sums_kj = or += Σ_i x_i,k·n+j of each matrix
template <class T>
void add_sums_in(const ColumnSums& first, const ColumnSums& second, const ColumnSums& partial, Write write) {
  kernel::sum_strips({name, bytes_of(first) + bytes_of(second) + bytes_of(partial)}, kernel::sums_of<T>(first, write),
                     kernel::sums_of<T>(second, write), kernel::sums_of<float>(partial, write));
}
#else
/// A strip of columns from column `begin` on.
template <class T>
void sum_strip(const ColumnSums& sums, std::int64_t begin, Write write) {
  constexpr std::int64_t strip = kernel::strip_columns;
  const Tensor<const T> x = sums.x.as<T>();
  const std::int64_t width = x.columns - begin < strip ? x.columns - begin : strip;
  float total[strip] = {};
  for (std::int64_t block = 0; block < x.rows; block += kernel::sum_block_rows) {
    const std::int64_t end = block + kernel::sum_block_rows < x.rows ? block + kernel::sum_block_rows : x.rows;
    float partial[strip] = {};
    if (width == strip) {  // a compile-time width keeps the partial sums in registers
      for (std::int64_t i = block; i < end; ++i) {
        for (std::int64_t j = 0; j < strip; ++j) partial[j] += x(i, begin + j);
      }
    } else {
      for (std::int64_t i = block; i < end; ++i) {
        for (std::int64_t j = 0; j < width; ++j) partial[j] += x(i, begin + j);
      }
    }
    for (std::int64_t j = 0; j < strip; ++j) total[j] += partial[j];
  }
  const kernel::FinishSums finish(sums, write);
  for (std::int64_t j = 0; j < width; ++j) finish(begin + j, 0, total[j]);
}

/// Partial sums, which only GPUs have, are added as there, so that their bits do not depend on the launch that does it.
void add_sums(const ColumnSums& first, const ColumnSums& second, const ColumnSums& partial, Write write) {
  constexpr std::int64_t strip = kernel::strip_columns;
  const auto work = kernel::sums_of<float>(partial, write);
  const std::int64_t strips[] = {kernel::divide_up(first.x.columns, strip), kernel::divide_up(second.x.columns, strip),
                                 work.strips()};
  kernel::for_items({name, bytes_of(first) + bytes_of(second) + bytes_of(partial)}, strips[0] + strips[1] + strips[2],
                    [=](std::int64_t item) {
                      const std::int64_t of_partial = item - strips[0] - strips[1];
                      if (of_partial >= 0) {
                        packs::serial_strip<1>(of_partial, work.rows, work.columns, work.term, work.finish);
                        return;
                      }
                      const ColumnSums& sums = item < strips[0] ? first : second;
                      const std::int64_t own = item < strips[0] ? item : item - strips[0];
                      core::with_type(sums.x.type, [&]<class T>() { sum_strip<T>(sums, own * strip, write); });
                    });
}
#endif

}  // namespace

void add_column_sums(std::span<const ColumnSums> matrices, const ColumnSums& partial, Write write) {
  constexpr std::size_t most = 2;
  core::require(matrices.size() <= most && (matrices.size() < most || matrices[0].x.type == matrices[1].x.type),
                "add_column_sums: too many matrices, or of several types");
  core::require(partial.x.columns == 0 || partial.x.type == core::DataType::fp32,
                "add_column_sums: partial sums that are not floats");
  const auto wanted = [&](std::size_t k) {
    return k < matrices.size() && matrices[k].wanted() ? matrices[k] : ColumnSums();
  };
  const ColumnSums first = wanted(0), second = wanted(1), third = partial.wanted() ? partial : ColumnSums();
#if BERT_HPC_WARPS
  const core::DataType type = first.x.columns > 0 ? first.x.type : second.x.type;
  core::with_type(type, [&]<class T>() { add_sums_in<T>(first, second, third, write); });
#else
  add_sums(first, second, third, write);
#endif
}

void column_sums(ConstMatrix x, float* sums, Write write) {
  const ColumnSums one[] = {{x, {sums}}};
  add_column_sums(one, {}, write);
}

}  // namespace bert_hpc::ops
