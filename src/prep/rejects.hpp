// Internal to the module.
#pragma once

#include "bert_hpc/prep/row_table.hpp"

namespace bert_hpc::prep {

/// Throws Error(data) with the reasons, their counts and what they suggest: if no row of `table` is left, or if more
/// than [filter] max_rejected of its rows are broken.
void refuse_many_rejects(const RowTable& table, const PrepConfig& config);

}  // namespace bert_hpc::prep
