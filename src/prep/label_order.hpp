// Internal to the module.
#pragma once

#include "bert_hpc/prep/row_table.hpp"

namespace bert_hpc::prep {

/// Rejects the rows of rare labels ([filter] min_rows_per_label, most_frequent_labels) and numbers the other labels: in
/// the order of [task] labels, else integers by value and names by name. `table` has its labels as they came.
void settle_labels(RowTable& table, const PrepConfig& config);

}  // namespace bert_hpc::prep
