// Converts a parsed TOML value to a variable of the required type, or returns a message if it does not fit. Pure
// functions, used by TomlReader only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bert_hpc/config/parse_toml.hpp"
#include "bert_hpc/config/toml_reader.hpp"

namespace bert_hpc::config {

struct ValueProblem {
  Location location;
  std::string text;  ///< begins with the key's name; "" if there is no problem
};

/// Sets `result` if the value fits; otherwise leaves it unchanged and returns the problem.
ValueProblem read_value(const TomlValue& value, bool& result);
ValueProblem read_value(const TomlValue& value, std::int64_t& result, const Range& range);
ValueProblem read_value(const TomlValue& value, double& result, const Range& range);
ValueProblem read_value(const TomlValue& value, std::string& result, const Choices& choices);
ValueProblem read_value(const TomlValue& value, std::vector<std::string>& result);
ValueProblem read_value(const TomlValue& value, std::vector<double>& result, const Range& each);

}  // namespace bert_hpc::config
