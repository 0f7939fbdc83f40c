// The input of a model that reads embeddings made by another one: a batch's token ids are numbers of rows of a table
// that no training changes.
#pragma once

#include <cstdint>
#include <memory>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/layers/input.hpp"

namespace bert_hpc::layers {

/// Rows of all data sets of a run, in memory where kernels run.
struct FeatureTable {
  core::Buffer<float> values;  ///< (rows, columns)
  std::int64_t rows = 0, columns = 0;
};

/// Without a table, as for estimates, the input has costs alone and makes zeros.
std::shared_ptr<const InputKind> feature_rows(std::int64_t columns, std::shared_ptr<const FeatureTable> table);

}  // namespace bert_hpc::layers
