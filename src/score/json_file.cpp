#include "json_file.hpp"

#include <algorithm>
#include <string_view>

#include "bert_hpc/core/json_depth.hpp"
#include "bert_hpc/core/text_file.hpp"

namespace bert_hpc::score {
namespace {

constexpr std::int64_t max_bytes = std::int64_t{1} << 31;
constexpr int max_depth = 64;

}  // namespace

void fail_data(const std::string& path, const std::string& problem) {
  throw core::Error(core::ExitCode::data, path + ": " + problem);
}

namespace {

/// The value in `text`, which begins after `lines` lines of the file.
nlohmann::json parse(std::string_view text, const std::string& path, std::vector<std::string>* keys,
                     std::int64_t lines) {
  if (core::nests_too_deep(text, max_depth)) {
    fail_data(path,
              "its brackets nest deeper than " + std::to_string(max_depth) + "; give a file of the expected form.");
  }
  const auto note_key = [keys](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    if (event == nlohmann::json::parse_event_t::key && depth == 1) keys->push_back(parsed.get<std::string>());
    return true;
  };
  try {
    if (keys == nullptr) return nlohmann::json::parse(text.begin(), text.end());
    return nlohmann::json::parse(text.begin(), text.end(), note_key);
  } catch (const nlohmann::json::parse_error& error) {
    const std::size_t bytes = std::min(error.byte, text.size());
    const auto line = 1 + lines + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bytes), '\n');
    fail_data(path, "line " + std::to_string(line) + " is not valid JSON (byte " + std::to_string(error.byte) +
                        (lines == 0 ? " of the file" : " of the line") +
                        "); write the file again or correct that line.");
  } catch (const nlohmann::json::out_of_range&) {
    fail_data(path, "a number in it is too large for a double; correct it.");
  }
}

}  // namespace

nlohmann::json read_json_file(const std::string& path, std::vector<std::string>* keys) {
  return parse(core::read_text_file(path, max_bytes), path, keys, 0);
}

nlohmann::json read_json_values(const std::string& path) {
  const std::string text = core::read_text_file(path, max_bytes);
  const auto is_blank = [](std::string_view line) {
    return line.find_first_not_of(" \t\r\n") == std::string_view::npos;
  };
  std::string_view rest = text;
  const std::string_view first = rest.substr(0, rest.find('\n'));
  if (first.size() == rest.size() || is_blank(rest.substr(first.size())) || !nlohmann::json::accept(first)) {
    return parse(text, path, nullptr, 0);
  }
  nlohmann::json values = nlohmann::json::array();
  for (std::int64_t line = 0; !rest.empty(); ++line) {
    const std::string_view here = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(here.size() + 1, rest.size()));
    if (!is_blank(here)) values.push_back(parse(here, path, nullptr, line));
  }
  return values;
}

}  // namespace bert_hpc::score
