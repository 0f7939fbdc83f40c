// A JSON value as people's programs write it, and why it cannot be read. Internal to the module.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace bert_hpc::prep {

/// The value, with null for NaN, Infinity and -Infinity, which Python writes; discarded if `text` is no JSON, and then
/// `problem` says why: "is not JSON: …". The caller limits the depth (core/json_depth.hpp).
nlohmann::json read_json_value(std::string_view text, std::string& problem);

/// Whether text may hold NaN or Infinity outside of strings.
bool may_have_nan(std::string_view text);
/// The text with null for them.
std::string with_nulls(std::string_view text);

/// The parser's message `what` without its own name for it and without a position in the value.
std::string json_problem(const std::string& what);

}  // namespace bert_hpc::prep
