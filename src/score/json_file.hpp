// JSON files of unknown origin: limits on size and nesting, and errors that name file and line.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::score {

/// Throws Error(files) if the file cannot be read, Error(data) if it is not JSON. keys: gets the names in the outermost
/// object in the file's order, repeated ones too; the value of a repeated name is its last.
nlohmann::json read_json_file(const std::string& path, std::vector<std::string>* keys = nullptr);

/// The same; of a file with a value on each line (JSON Lines) the list of them.
nlohmann::json read_json_values(const std::string& path);

/// Throws Error(data): "PATH: WHERE problem".
[[noreturn]] void fail_data(const std::string& path, const std::string& problem);

}  // namespace bert_hpc::score
