// Tasks of attention that multiply matrices, each on one thread with its own scratch.
#pragma once

#include <algorithm>

#include "bert_hpc/core/matrix.hpp"
#include "blocked_product.hpp"
#include "head_tasks.hpp"

namespace bert_hpc::ops::cpu {

/// The size of a part of scratch, so that the next one begins at a multiple of 64 bytes.
constexpr std::int64_t rounded_up(std::int64_t floats) {
  return (floats + 15) / 16 * 16;
}

inline void set_zero(const core::Matrix& x) {
  for (std::int64_t i = 0; i < x.rows; ++i) {
    char* const row = static_cast<char*>(x.row(i));
    std::fill_n(row, x.columns * core::bytes_of(x.type), char{0});
  }
}

/// Which operands of a product c = op(a)·op(b) are transposed.
enum class Form { as_is, a_transposed, b_transposed };

/// c = op(a)·op(b), or c += that of floats. Products of 16-bit operands are summed in floats and rounded once.
inline void multiply(const TileKernels& kernels, const ProductScratch& scratch, core::ConstMatrix a,
                     core::ConstMatrix b, Form form, core::Matrix c, Begin begin = Begin::zero) {
  BlockedProduct product;
  product.m = c.rows;
  product.n = c.columns;
  product.k = form == Form::a_transposed ? a.rows : a.columns;
  product.a_source = source_of(a.type);
  product.b_source = source_of(b.type);
  product.c_source = source_of(c.type);
  product.a = a.data;
  product.a_stride = a.stride;
  product.a_transposed = form == Form::a_transposed;
  product.b = b.data;
  product.b_stride = b.stride;
  product.b_transposed = form == Form::b_transposed;
  product.c = c.data;
  product.c_stride = c.stride;
  product.begin = begin;
  run_alone(kernels, product, scratch);
}

/// The tasks of one implementation. Task::Sizes(kernels, type, longest sequence, head_dim) has the sizes of a task's
/// scratch.
template <class Task>
class ProductTasks {
 public:
  ProductTasks(const TileKernels& kernels, core::DataType type) : kernels_(kernels), type_(type) {}

  const char* kernels_name() const { return kernels_.name; }

  /// As Attention::reserve().
  std::int64_t reserve(std::int64_t max_length, std::int64_t head_dim) {
    return tasks_.reserve(typename Task::Sizes(kernels_, type_, max_length, head_dim).floats());
  }

  /// run(task) for every sequence and head.
  template <class Run>
  void for_all(const kernel::Label& label, const AttentionInputs& in, const AttentionResults& results, const Run& run) {
    require_operands(in, results, type_);
    const typename Task::Sizes sizes(kernels_, type_, in.extents.max_length, in.extents.head_dim);
    tasks_.for_all(label, in.extents, sizes.floats(), [&](std::int64_t sequence, std::int64_t head, float* scratch) {
      run(Task(kernels_, sizes, in, results, sequence, head, scratch));
    });
  }

 private:
  const TileKernels& kernels_;
  core::DataType type_;
  HeadTasks tasks_;
};

}  // namespace bert_hpc::ops::cpu
