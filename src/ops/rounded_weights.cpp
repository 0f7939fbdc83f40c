#include "bert_hpc/ops/rounded_weights.hpp"

#include <functional>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/activation.hpp"

namespace bert_hpc::ops {

RoundedWeights::RoundedWeights(const core::ParameterStore& parameters, core::DataType type)
    : parameters_(parameters), type_(type), version_(parameters.version() - 1) {
  core::require(type != core::DataType::fp32, "rounded weights: a 16-bit type is needed");
  if (parameters.values().data() != nullptr) copies_ = core::Buffer<std::uint16_t>(end() - begin());
}

core::ConstMatrix RoundedWeights::of(const core::Tensor<const float>& w) {
  if (copies_.size() == 0) return w;
  const std::span<const float> values = this->values();
  // Pointers into different arrays may be compared with std::less but not subtracted.
  const std::less<const float*> before;
  if (w.size() == 0 || before(w.data, values.data()) || !before(w.data, values.data() + values.size())) return w;
  if (version_ != parameters_.version()) renew();
  return {copies_.data() + (w.data - values.data()), w.rows, w.columns, w.stride, type_};
}

void RoundedWeights::renew() {
  const std::span<const float> values = this->values();
  // Viewed as rows, as the kernel distributes rows over threads.
  constexpr std::int64_t row = 4096;
  const std::int64_t rows = copies_.size() / row, rest = copies_.size() % row;
  const auto round = [&](std::int64_t begin, std::int64_t count, std::int64_t columns) {
    copy(core::ConstMatrix(values.data() + begin, count, columns, columns, core::DataType::fp32),
         core::Matrix(copies_.data() + begin, count, columns, columns, type_));
  };
  if (rows > 0) round(0, rows, row);
  if (rest > 0) round(rows * row, 1, rest);
  written();
}

}  // namespace bert_hpc::ops
