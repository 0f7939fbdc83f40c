// Words for columns that a file lacks. Internal to the module.
#pragma once

#include <string>
#include <vector>

#include "bert_hpc/core/text.hpp"

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

}  // namespace bert_hpc::prep
