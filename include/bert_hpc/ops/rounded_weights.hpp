// Copies of a parameter store's values in the 16-bit type that products read them in: weights are rounded once after
// each change, and not by every product that reads them. Values that are only looked up have none.
//
// A copy cannot be stale: whoever changes parameters says so to the store (ParameterStore::change_values()), and copies
// that are behind are made anew before one is read. An update that writes the copies itself spares that pass.
#pragma once

#include <cstdint>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/parameter_store.hpp"

namespace bert_hpc::ops {

class RoundedWeights {
 public:
  /// Of `parameters`, which must outlive this. Where they are a layout alone nothing is allocated.
  RoundedWeights(const core::ParameterStore& parameters, core::DataType type);

  /// The copy of `w`, as new as `w` is; `w` itself where it has none.
  core::ConstMatrix of(const core::Tensor<const float>& w);

  std::int64_t begin() const { return parameters_.products_begin(); }  ///< in the arena: of what has copies, to its end
  std::uint16_t* data() const { return copies_.data(); }               ///< (arena − begin())
  core::DataType type() const { return type_; }
  std::int64_t bytes() const { return (parameters_.arena_size() - begin()) * core::bytes_of(type_); }

  /// Who has changed the parameters has written all copies too.
  void written() { version_ = parameters_.version(); }

 private:
  void renew();

  const core::ParameterStore& parameters_;
  core::DataType type_;
  core::Buffer<std::uint16_t> copies_;
  std::uint64_t version_;
};

}  // namespace bert_hpc::ops
