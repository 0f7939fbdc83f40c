// Copies of a parameter store's values in the 16-bit type that gemms read. Weights are rounded once after each change
// instead of in every gemm that reads them. Values that are only looked up (embeddings) have no copy.
//
// A copy is never stale: code that changes parameters reports this to the store (ParameterStore::change_values()), and
// outdated copies are rounded again before they are read. An optimizer update that writes the copies itself saves that
// pass.
#pragma once

#include <cstdint>
#include <span>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/parameter_store.hpp"

namespace bert_hpc::ops {

class RoundedWeights {
 public:
  /// Copies of `parameters`, which must outlive this object. Allocates nothing if they are only a layout.
  RoundedWeights(const core::ParameterStore& parameters, core::DataType type);

  /// The up-to-date copy of `w`, or `w` itself if it has no copy.
  core::ConstMatrix of(const core::Tensor<const float>& w);

  /// Elements [begin, end) of the arena have copies.
  std::int64_t begin() const { return parameters_.products_begin(); }
  std::int64_t end() const { return parameters_.products_end(); }
  std::uint16_t* data() const { return copies_.data(); }  ///< (end() − begin())
  core::DataType type() const { return type_; }
  std::int64_t bytes() const { return (end() - begin()) * core::bytes_of(type_); }

  /// Marks all copies as up to date: the code that changed the parameters has also written the copies.
  void written() { version_ = parameters_.version(); }

 private:
  void renew();
  std::span<const float> values() const { return parameters_.values(begin(), end()); }

  const core::ParameterStore& parameters_;
  core::DataType type_;
  core::Buffer<std::uint16_t> copies_;
  std::uint64_t version_;
};

}  // namespace bert_hpc::ops
