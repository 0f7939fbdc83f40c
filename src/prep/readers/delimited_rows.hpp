// CSV and TSV rows. Internal to the module: open_rows() makes these.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bert_hpc/prep/readers/row_reader.hpp"

namespace bert_hpc::prep {

std::unique_ptr<RowReader> open_delimited_rows(const std::string& file, const RowFormat& format,
                                               const std::vector<std::string>& columns);

}  // namespace bert_hpc::prep
