// The input of a model that reads embeddings made by another one: a batch's token ids are numbers of rows of a table
// that no training changes.
#pragma once

#include <cstdint>
#include <memory>

#include "bert_hpc/layers/input.hpp"
#include "bert_hpc/ops/stored_rows.hpp"

namespace bert_hpc::layers {

/// Rows of all data sets of a run, as they are stored.
struct FeatureTable {
  ops::StoredRows rows;
  std::shared_ptr<void> memory;  ///< owns the rows
};

/// Without a table, as for estimates, the input has costs alone and makes zeros.
std::shared_ptr<const InputKind> feature_rows(std::int64_t columns, std::shared_ptr<const FeatureTable> table);

}  // namespace bert_hpc::layers
