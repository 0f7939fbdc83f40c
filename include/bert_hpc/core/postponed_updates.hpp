// Updates of parameters that an optimizer has not made yet, as a ParameterStore and its readers see them. A batch reads
// few rows of a large embedding table, and a row without gradient changes by numbers that are known: its updates wait
// until a caller reads the row (ops/update_rule.hpp).
#pragma once

#include <cstdint>

namespace bert_hpc::core {

/// Rows of a table of `columns` elements whose first one is element `begin` of the arena.
struct TableRows {
  std::int64_t begin = 0, columns = 0;
  const std::int32_t* rows = nullptr;  ///< (count), device memory, each row once; null: rows [0, count)
  std::int64_t count = 0;
};

/// Readers of several threads may call it at once.
class PostponedUpdates {
 public:
  virtual ~PostponedUpdates() = default;

  /// Makes all updates that wait.
  virtual void finish() = 0;
  /// Makes those of these rows.
  virtual void finish(const TableRows& rows) = 0;
};

}  // namespace bert_hpc::core
