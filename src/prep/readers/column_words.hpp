// Words for columns that a file lacks. Internal to the module.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/prep/readers/row_reader.hpp"

namespace bert_hpc::prep {

/// "columns \"txt\" (did you mean \"text\"?) and \"score\"" of a file that has columns of these names.
inline std::string columns_text(const std::vector<std::string>& missing, const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const std::string& column : missing) {
    const std::string near = core::nearest_name(column, names);
    shown.push_back('"' + core::printable(column) + '"' +
                    (near.empty() ? "" : " (did you mean \"" + core::printable(near, 60) + "\"?)"));
  }
  return (missing.size() == 1 ? "column " : "columns ") + core::listed(shown, "and", false);
}

/// Indices of `columns` among `names`, which `file` has, of a format whose columns are always the same. Throws
/// Error(data) for those that are not there.
inline std::vector<std::size_t> column_indices(const std::string& file, const TextFormat& format,
                                               const std::vector<std::string>& names,
                                               const std::vector<std::string>& columns) {
  std::vector<std::string> missing;
  std::vector<std::size_t> indices;
  for (const std::string& column : columns) {
    const auto found = std::find(names.begin(), names.end(), column);
    if (found == names.end()) missing.push_back(column);
    indices.push_back(static_cast<std::size_t>(found - names.begin()));
  }
  if (missing.empty()) return indices;
  throw core::Error(core::ExitCode::data, file + ": has no " + columns_text(missing, names) + ". The columns of " +
                                              format.title + " are " + core::listed(names, "and") + ".");
}

}  // namespace bert_hpc::prep
