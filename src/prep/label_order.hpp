// Internal to the module.
#pragma once

#include "bert_hpc/prep/row_table.hpp"

namespace bert_hpc::prep {

/// Takes out rare labels ([filter] min_rows_per_label, most_frequent_labels; renumber_labels()) and numbers the other
/// labels: in the order of [task] labels, else integers by value and names by name. `table` has its labels as they
/// came. Throws Error(data) where rows are left and no label name is.
void settle_labels(RowTable& table, const PrepConfig& config);

/// Takes out rows with the label "-", which corpora of natural language inference give pairs whose annotators do not
/// agree: if all other labels are those of such corpora, and the input neither lists labels nor keeps it
/// ([filter] undecided). `table` has its labels as they came.
void reject_undecided(RowTable& table, const PrepConfig& config);

}  // namespace bert_hpc::prep
