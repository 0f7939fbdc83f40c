// Checks the nesting depth of JSON text before parsing, as a parser can take forty times the text's size in memory on
// deep nesting.
#pragma once

#include <string_view>

namespace bert_hpc::core {

/// Whether brackets outside of strings nest deeper than `most`. Invalid JSON is left to the parser to report.
bool nests_too_deep(std::string_view json, int most);

}  // namespace bert_hpc::core
