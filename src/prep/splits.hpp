// Internal to the module.
#pragma once

#include <cstdint>

#include "bert_hpc/prep/row_table.hpp"

namespace bert_hpc::prep {

/// [filter] sample: of the rows [0, rows) of `table`, those that can be used and are not drawn become not_sampled.
/// Rows of one group are drawn together. Counts of labels follow. Does nothing without a sample.
void sample_rows(RowTable& table, const PrepConfig& config, std::int64_t rows);

/// [split] for the rows [0, rows) of `table` that can be used: each gets train, validation or test.
void split_rows(RowTable& table, const PrepConfig& config, std::int64_t rows);

}  // namespace bert_hpc::prep
