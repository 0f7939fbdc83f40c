// What is known of Parquet files without Arrow's library. Internal to the module.
#pragma once

#include <string>

namespace bert_hpc::prep {

/// Version of Arrow in this build; "" if it has none and cannot read Parquet.
std::string parquet_version();

/// Throws Error(files) if `file` cannot be opened or is no regular file, Error(data) if it does not begin and end as
/// Parquet does.
void check_parquet_ends(const std::string& file);

}  // namespace bert_hpc::prep
