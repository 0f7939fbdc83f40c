#include "json_file.hpp"

#include <algorithm>

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

nlohmann::json read_json_file(const std::string& path, std::vector<std::string>* keys) {
  const std::string text = core::read_text_file(path, max_bytes);
  if (core::nests_too_deep(text, max_depth)) {
    fail_data(path,
              "its brackets nest deeper than " + std::to_string(max_depth) + "; give a file of the expected form.");
  }
  const auto note_key = [keys](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    if (event == nlohmann::json::parse_event_t::key && depth == 1) keys->push_back(parsed.get<std::string>());
    return true;
  };
  try {
    if (keys == nullptr) return nlohmann::json::parse(text);
    return nlohmann::json::parse(text, note_key);
  } catch (const nlohmann::json::parse_error& error) {
    const std::size_t bytes = std::min(error.byte, text.size());
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bytes), '\n');
    fail_data(path, "line " + std::to_string(line) + " is not valid JSON (byte " + std::to_string(error.byte) +
                        " of the file); write the file again or correct that place.");
  } catch (const nlohmann::json::out_of_range&) {
    fail_data(path, "a number in it is too large for a double; correct it.");
  }
}

}  // namespace bert_hpc::score
