#include "bert_hpc/ops/stored_rows.hpp"

#include "bert_hpc/core/data_type.hpp"
#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

// y_t = s_id · W[id_t]
template <class S, class T>
void forward_in(const std::int32_t* ids, const StoredRows& table, core::Tensor<T> y) {
  const auto* const values = static_cast<const S*>(table.values);
  const float* const scales = table.scales;
  const std::int64_t columns = table.columns;
  kernel::for_rows(
      {"bert_hpc::ops::stored_rows_forward", kernel::bytes_of<S, T>(y.size())}, y.rows,
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t t) {
        const std::int64_t row = ids[t];
        const S* const in = values + row * columns;
        const float scale = scales == nullptr ? 1.0f : scales[row];
        T* const out = y.row(t);
        team.each(columns, [=](std::int64_t j) { out[j] = static_cast<float>(in[j]) * scale; });
      });
}

template <class T>
void forward_to(const std::int32_t* ids, const StoredRows& table, core::Tensor<T> y) {
  switch (table.type) {
    case StoredType::fp32:
      return forward_in<float>(ids, table, y);
    case StoredType::fp16:
      return forward_in<core::Fp16>(ids, table, y);
    case StoredType::bf16:
      return forward_in<core::Bf16>(ids, table, y);
    case StoredType::int8:
      return forward_in<std::int8_t>(ids, table, y);
  }
}

}  // namespace

void stored_rows_forward(const std::int32_t* ids, const StoredRows& table, core::Matrix y) {
  core::with_type(y.type, [&]<class T>() { forward_to(ids, table, y.as<T>()); });
}

}  // namespace bert_hpc::ops
