#include "bert_hpc/core/json_strict.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text_file.hpp"

namespace bert_hpc::core {
namespace {

using nlohmann::json;

constexpr std::size_t deepest = 16;

// Walks through the text once before it is parsed, and refuses what json would swallow. (A callback of json::parse
// could do so meanwhile, but for each object's end that looks through all of its parent.)
class Watcher : public nlohmann::json_sax<json> {
 public:
  explicit Watcher(const std::string& what) : what_(what) {}

  bool start_object(std::size_t) override { return enter(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    throw Error(ExitCode::files,
                what_ + ": the key " + in_quotes(name) + " stands twice in one object; it must stand once.");
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }  // json::parse reports it

 private:
  bool enter() {
    keys_.emplace_back();
    if (keys_.size() > deepest) throw Error(ExitCode::files, what_ + ": nested deeper than any such file is.");
    return true;
  }
  bool leave() {
    keys_.pop_back();
    return true;
  }

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
  // The parser takes one for the end of the text, and what follows it for nothing.
  if (text.find('\0') != std::string::npos)
    throw Error(ExitCode::files, what + ": not valid JSON (holds a zero byte).");
  json root;
  try {
    Watcher watcher(what);
    json::sax_parse(text, &watcher);
    root = json::parse(text);
  } catch (const json::exception& problem) {
    std::string reason = problem.what();
    if (const std::size_t end = reason.find("] "); end != std::string::npos) reason.erase(0, end + 2);
    throw Error(ExitCode::files, what + ": not valid JSON (" + in_quotes(reason) + ").");
  }
  if (!root.is_object()) throw Error(ExitCode::files, what + ": must be one JSON object, is " + root.type_name() + ".");
  return root;
}

json read_strict_json(const std::filesystem::path& path, std::int64_t limit) {
  return parse_strict_json(read_text_file(path.string(), limit), path.string());
}

}  // namespace bert_hpc::core
