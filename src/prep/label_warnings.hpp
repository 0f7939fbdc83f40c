// Internal to the module.
#pragma once

#include <string>
#include <vector>

#include "bert_hpc/prep/row_table.hpp"

namespace bert_hpc::prep {

/// Appends what is probably a mistake in the labels of a table that has names of labels.
void add_label_warnings(const RowTable& table, const PrepConfig& config, std::vector<std::string>& all);

/// Appends the label columns of a regression without any number: the model would have outputs that nothing trains.
void warn_of_empty_columns(const RowTable& table, const PrepConfig& config, std::vector<std::string>& all);

}  // namespace bert_hpc::prep
