#include "bert_hpc/ops/token_dropout.hpp"

#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

KOKKOS_INLINE_FUNCTION float scaled(float value, float factor) {
  return factor == 0.0f ? 0.0f : value * factor;
}

template <class T>
void scale_rows_in(const float* factors, core::Tensor<T> x) {
  const kernel::Label label("bert_hpc::ops::scale_rows", kernel::bytes_of<T, T>(x.size()));
#if BERT_HPC_WARPS
  kernel::for_packs(
      label, x.rows, x.columns, KOKKOS_LAMBDA(std::int64_t i, std::int64_t begin, int count) {
        float value[packs::width];
        packs::load(x.row(i) + begin, count, value);
        for (int j = 0; j < packs::width; ++j) value[j] = scaled(value[j], factors[i]);
        packs::store(value, count, x.row(i) + begin);
      });
#else
  kernel::for_elements(
      label, x.rows, x.columns,
      KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) { x(i, j) = scaled(static_cast<float>(x(i, j)), factors[i]); });
#endif
}

}  // namespace

void token_factors(const core::MicroBatch& batch, const TokenDropout& dropout, float* factors) {
  const std::int32_t *const ids = batch.input_ids, *const offsets = batch.tokens.offsets,
                            *const lengths = batch.lengths;
  const std::int32_t mask = dropout.mask_token;
  const float kept = dropout.kept;
  kernel::for_rows(
      {"bert_hpc::ops::token_factors", kernel::bytes_of<std::int32_t, float>(batch.tokens.count)}, batch.sequences,
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t b) {
        const std::int64_t first = offsets[b], rows = offsets[b + 1] - first;
        const std::int64_t real = lengths != nullptr ? lengths[b] : rows;
        const auto masked = team.sum<float>(real, [=](std::int64_t t) { return ids[first + t] == mask ? 1.0f : 0.0f; });
        // Rounded as PyTorch does.
        const float factor = kept / (1.0f - masked / static_cast<float>(real));
        team.each(rows, [=](std::int64_t t) { factors[first + t] = ids[first + t] == mask ? 0.0f : factor; });
      });
}

void scale_rows(const float* factors, core::Matrix x) {
  core::with_type(x.type, [&]<class T>() { scale_rows_in<T>(factors, x.as<T>()); });
}

}  // namespace bert_hpc::ops
