#include "bert_hpc/config/toml_reader.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "bert_hpc/config/parse_toml.hpp"
#include "bert_hpc/core/text.hpp"
#include "toml_reader_state.hpp"

namespace bert_hpc::config {

namespace {

constexpr std::size_t max_input_bytes = 1 << 20;

using Kind = TomlValue::Kind;

std::string quoted_choices(const Choices& choices) {
  return choices.names.empty() ? "a string" : core::listed(choices.names, "or");
}

}  // namespace

TomlKeys& TomlKeys::key(const char* name, int& value, Range range) {
  std::int64_t wide = value;
  range.low = std::max(range.low, static_cast<double>(std::numeric_limits<int>::min()));
  range.high = std::min(range.high, static_cast<double>(std::numeric_limits<int>::max()));
  key(name, wide, range);
  value = static_cast<int>(wide);
  return *this;
}

std::string read_input_text(const std::string& path, const std::string& what) {
  const auto fail = [&](const std::string& why) {
    throw core::Error(core::ExitCode::input, "cannot read " + what + ' ' + core::printable(path) + ": " + why);
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) fail("it is a directory");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(errno != 0 ? std::strerror(errno) : "it cannot be opened");
  std::string text(max_input_bytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) fail("reading failed");
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > max_input_bytes) fail("it is larger than " + core::format_bytes(max_input_bytes));
  const bool utf16 = text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF") ||
                     (text.size() > 1 && (text[0] == '\0') != (text[1] == '\0'));
  if (utf16) fail("it is UTF-16; TOML is UTF-8. Convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW");
  return text;
}

void throw_if_any(const core::ProblemList& problems) {
  problems.throw_if_any(core::ExitCode::input, "the input cannot be used:");
}

TomlReader::TomlReader(const std::string& path, const std::vector<std::string>& overrides)
    : TomlReader(read_input_text(path), path, overrides) {}

TomlReader::TomlReader(std::string_view text, const std::string& name, const std::vector<std::string>& overrides)
    : state_(std::make_unique<State>()) {
  state_->file = core::printable(name);
  state_->overrides = overrides;
  state_->root = parse_toml(text, state_->problems);
  state_->readable = state_->problems.empty();
  for (std::size_t i = 0; i < overrides.size(); ++i) {
    apply_override(state_->root, overrides[i], static_cast<int>(i) + 1, state_->problems);
  }
}

TomlReader::~TomlReader() = default;

void TomlReader::override_excludes(const std::string& key, const std::vector<std::string>& others) {
  const TomlValue* given = state_->at(key);
  if (given == nullptr || given->name_location.source == 0) return;
  for (const std::string& other : others) {
    const auto dot = other.rfind('.');
    TomlValue* table = state_->at(other.substr(0, dot));
    if (table == nullptr) continue;
    std::erase_if(table->children, [&](const TomlValue& value) {
      return value.name == other.substr(dot + 1) && value.name_location.source < given->name_location.source;
    });
  }
}

TomlKeys& TomlReader::table(const std::string& name) {
  const bool first = !state_->known.contains(name);
  state_->known[name];
  state_->table = name;
  state_->table_value = state_->at(name);
  const TomlValue* value = state_->table_value;
  if (first && value != nullptr && value->kind != Kind::table) {
    state_->add(value->location,
                '"' + name + "\" must be a table, headed by [" + name + "], but is " + value->description());
  }
  return *this;
}

TomlKeys& TomlReader::key(const char* name, bool& value) {
  state_->read(name, "true or false", value);
  return *this;
}

TomlKeys& TomlReader::key(const char* name, std::int64_t& value, const Range& range) {
  state_->read(name, "a whole number", value, range);
  return *this;
}

TomlKeys& TomlReader::key(const char* name, double& value, const Range& range) {
  state_->read(name, "a number", value, range);
  return *this;
}

TomlKeys& TomlReader::key(const char* name, std::string& value, const Choices& choices) {
  state_->read(name, quoted_choices(choices), value, choices);
  return *this;
}

TomlKeys& TomlReader::key(const char* name, std::vector<std::string>& value) {
  state_->read(name, "a list of strings", value);
  return *this;
}

TomlKeys& TomlReader::key(const char* name, std::string& value, std::vector<std::string>& several) {
  std::vector<std::string> all;
  if (!state_->read(name, "a string or a list of strings", all)) return *this;
  value = all.size() == 1 ? all.front() : "";
  if (all.size() > 1) several = std::move(all);
  return *this;
}

TomlKeys& TomlReader::key(const char* name, std::vector<double>& value, const Range& each) {
  state_->read(name, "a list of numbers", value, each);
  return *this;
}

TomlKeys& TomlReader::key(const char* name, std::vector<double>& value, const Range& each, std::string& word,
                          const Choices& words) {
  const TomlValue* given = state_->table_value == nullptr ? nullptr : state_->table_value->find(name);
  if (given != nullptr && given->kind == Kind::text) {
    if (state_->read(name, quoted_choices(words), word, words)) value.clear();
    return *this;
  }
  if (given != nullptr && each.takes_one && (given->kind == Kind::integer || given->kind == Kind::number)) {
    std::optional<double> only;
    key(name, only, each);
    if (only) value = {*only};
    return *this;
  }
  return key(name, value, each);
}

TomlKeys& TomlReader::key(const char* name, std::optional<bool>& value) {
  state_->read_optional(name, "true or false", value);
  return *this;
}

TomlKeys& TomlReader::key(const char* name, std::optional<std::int64_t>& value, const Range& range) {
  state_->read_optional(name, "a whole number", value, range);
  return *this;
}

TomlKeys& TomlReader::key(const char* name, std::optional<double>& value, const Range& range) {
  state_->read_optional(name, "a number", value, range);
  return *this;
}

TomlKeys& TomlReader::key(const char* name, std::optional<std::string>& value, const Choices& choices) {
  state_->read_optional(name, quoted_choices(choices), value, choices);
  return *this;
}

TomlKeys& TomlReader::required() {
  if (state_->last_given || !state_->readable) return *this;
  const TomlValue* table = state_->table_value;
  const std::string path = state_->table + '.' + state_->last_key;
  state_->add(table != nullptr ? table->location : Location{},
              '[' + state_->table + "] " + state_->last_key + " is missing: it must be " + state_->last_kind, {path});
  state_->failed.insert(path);
  return *this;
}

bool TomlReader::given(const std::string& path) const {
  return state_->at(path) != nullptr;
}

void TomlReader::problem(const std::string& path, const std::string& text, std::vector<std::string> alternatives) {
  if (!state_->readable || state_->failed.contains(path)) return;
  const TomlValue* value = state_->at(path);
  std::vector<std::string> absent;
  if (value == nullptr) {
    absent = std::move(alternatives);
    absent.push_back(path);
  }
  const auto dot = path.rfind('.');
  if (value == nullptr && dot != std::string::npos) value = state_->at(path.substr(0, dot));
  state_->add(value != nullptr ? value->location : Location{}, text, std::move(absent));
}

core::ProblemList TomlReader::problems() {
  state_->report_unknown(state_->root, "");
  auto& problems = state_->problems;
  // Report a mistyped name once, with "did you mean", and not also as a missing key.
  std::erase_if(problems, [&meant = state_->meant](const TomlProblem& problem) {
    return std::any_of(problem.absent.begin(), problem.absent.end(), [&meant](const std::string& path) {
      return meant.contains(path) || meant.contains(path.substr(0, path.rfind('.')));
    });
  });
  const auto order = [](const Location& location) { return std::tie(location.source, location.line, location.column); };
  std::stable_sort(problems.begin(), problems.end(), [&order](const TomlProblem& a, const TomlProblem& b) {
    return order(a.location) < order(b.location);
  });
  core::ProblemList list;
  for (std::size_t i = 0; i < std::min(problems.size(), max_problems); ++i) list.add(state_->text_of(problems[i]));
  if (problems.size() > max_problems) list.add("and more problems");
  return list;
}

void TomlReader::finish() {
  throw_if_any(problems());
}

}  // namespace bert_hpc::config
