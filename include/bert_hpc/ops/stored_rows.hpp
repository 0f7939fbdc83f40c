// Look-ups in a table of numbers in the type in which files store them.
#pragma once

#include <cstdint>

#include "bert_hpc/core/matrix.hpp"

namespace bert_hpc::ops {

enum class StoredType : std::uint8_t { fp32, fp16, bf16, int8 };

/// A table in memory where kernels run. It owns nothing.
struct StoredRows {
  StoredType type = StoredType::fp32;
  const void* values = nullptr;   ///< (rows, columns) of the type
  const float* scales = nullptr;  ///< (rows): factor of each row; null: 1
  std::int64_t rows = 0, columns = 0;
};

/// y[t] = the table's row ids[t]; y (tokens, columns). Ids lie below the table's rows.
void stored_rows_forward(const std::int32_t* ids, const StoredRows& table, core::Matrix y);

}  // namespace bert_hpc::ops
