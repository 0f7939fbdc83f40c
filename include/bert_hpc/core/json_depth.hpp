// How deep a text nests, before a JSON parser takes forty times its bytes to find out.
#pragma once

#include <string_view>

namespace bert_hpc::core {

/// Do brackets outside of strings nest deeper than `most`? For JSON; what is not JSON is the parser's to tell.
bool nests_too_deep(std::string_view json, int most);

}  // namespace bert_hpc::core
