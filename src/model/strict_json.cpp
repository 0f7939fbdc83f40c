#include "strict_json.hpp"

#include <cstdio>
#include <set>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/io/atomic_write.hpp"

namespace bert_hpc::model {
namespace {

using core::Error;
using core::ExitCode;
using nlohmann::json;

constexpr std::size_t deepest = 16;

// Follows the parser and refuses what json would swallow.
class Watcher {
 public:
  explicit Watcher(const std::string& what) : what_(what) {}

  bool operator()(int, json::parse_event_t event, json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        keys_.emplace_back();
        if (keys_.size() > deepest) throw Error(ExitCode::files, what_ + ": nested deeper than any such file is.");
        break;
      case json::parse_event_t::object_end:
      case json::parse_event_t::array_end:
        keys_.pop_back();
        break;
      case json::parse_event_t::key:
        if (!keys_.back().insert(parsed.get_ref<const std::string&>()).second) {
          throw Error(ExitCode::files, what_ + ": the key " + in_quotes(parsed.get_ref<const std::string&>()) +
                                           " stands twice in one object; it must stand once.");
        }
        break;
      default:
        break;
    }
    return true;
  }

 private:
  const std::string& what_;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

std::string in_quotes(const std::string& text) {
  constexpr std::size_t longest = 160;
  std::string result = "\"";
  for (std::size_t i = 0; i < text.size() && i < longest; ++i) {
    const unsigned char byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x20 && byte < 0x7F) {
      result += text[i];
    } else {
      char escaped[5];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
      result += escaped;
    }
  }
  return result + (text.size() > longest ? "…\"" : "\"");
}

json parse_strict_json(const std::string& text, const std::string& what) {
  json root;
  try {
    Watcher watcher(what);
    root = json::parse(
        text, [&watcher](int depth, json::parse_event_t event, json& parsed) { return watcher(depth, event, parsed); });
  } catch (const json::exception& problem) {
    std::string reason = problem.what();
    if (const std::size_t end = reason.find("] "); end != std::string::npos) reason.erase(0, end + 2);
    throw Error(ExitCode::files, what + ": not valid JSON (" + in_quotes(reason) + ").");
  }
  if (!root.is_object()) throw Error(ExitCode::files, what + ": must be one JSON object, is " + root.type_name() + ".");
  return root;
}

json read_strict_json(const std::filesystem::path& path, std::int64_t limit) {
  return parse_strict_json(io::read_text_file(path.string(), limit), path.string());
}

}  // namespace bert_hpc::model
