// CSV and TSV rows, also for formats that are tables with a header of their own. Internal to the module.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bert_hpc/prep/readers/row_reader.hpp"

namespace bert_hpc::prep {

std::unique_ptr<RowReader> open_delimited_rows(const std::string& file, const RowFormat& format,
                                               const std::vector<std::string>& columns);

}  // namespace bert_hpc::prep
