// Parser of JSON files that may be hostile: size and depth are limited, a key that an object has twice is rejected
// (parsers differ in which one wins), and every failure is a core::Error that names the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace bert_hpc::core {

/// Parses `text`, whose root must be an object. `what` opens every message, e.g. "config.json of DIR".
nlohmann::json parse_strict_json(const std::string& text, const std::string& what);

/// The same for a whole file of at most `limit` bytes.
nlohmann::json read_strict_json(const std::filesystem::path& path, std::int64_t limit);

/// `text` in double quotes for a message: control bytes and bytes beyond ASCII as \xNN, cut after 160 bytes.
std::string in_quotes(const std::string& text);

}  // namespace bert_hpc::core
