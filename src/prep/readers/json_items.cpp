#include "json_items.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json.hpp"

namespace bert_hpc::prep {
namespace {

using core::Error;
using core::ExitCode;
using nlohmann::json;

constexpr char no_byte = '\0';
constexpr std::size_t first_look = std::size_t{1} << 16;

std::int64_t count_lines(std::string_view text) {
  return std::count(text.begin(), text.end(), '\n');
}

/// Finds the end of the JSON value at the front of a text that grows. What is between its brackets is not looked at.
class ValueEnd {
 public:
  /// Whether the end is in `text`: then size() is the value's. Otherwise the scan continues when more follows `text`.
  bool find(std::string_view text) {
    for (; at_ < text.size(); ++at_) {
      if (in_string_) {
        at_ = std::min(text.find('"', at_), text.size());
        if (at_ == text.size()) return false;
        in_string_ = is_escaped(text);
        if (!in_string_ && depth_ == 0) return ends_after();
        continue;
      }
      switch (text[at_]) {
        case '"':
          in_string_ = true;
          break;
        case '{':
        case '[':
          ++depth_;
          break;
        case '}':
        case ']':
          if (depth_ == 0) return true;  // of what the value is in
          if (--depth_ == 0) return ends_after();
          break;
        case ',':
        case ' ':
        case '\t':
        case '\r':
        case '\n':
          if (depth_ == 0) return true;
          break;
        default:
          break;
      }
    }
    return false;
  }
  std::size_t size() const { return at_; }

 private:
  bool ends_after() {
    ++at_;
    return true;
  }
  bool is_escaped(std::string_view text) const {
    std::size_t first = at_;
    while (first > 0 && text[first - 1] == '\\') --first;
    return (at_ - first) % 2 == 1;
  }

  std::size_t at_ = 0;
  std::int64_t depth_ = 0;
  bool in_string_ = false;
};

/// Walks the object at the front of a text.
class MemberEvents : public nlohmann::json_sax<json> {
 public:
  FirstMembers found;

  bool key(string_t& name) override {
    if (depth_ == 1) found.names.push_back(name);
    return true;
  }
  bool start_object(std::size_t) override { return begin(); }
  bool start_array(std::size_t) override {
    if (depth_ == 1 && found.names.back() == "data") found.has_list = true;
    return begin();
  }
  bool end_object() override {
    found.is_object = --depth_ == 0;
    return depth_ > 0;
  }
  bool end_array() override { return --depth_ > 0; }
  bool string(string_t&) override { return depth_ > 0; }
  bool number_integer(number_integer_t) override { return depth_ > 0; }
  bool number_unsigned(number_unsigned_t) override { return depth_ > 0; }
  bool number_float(number_float_t, const string_t&) override { return depth_ > 0; }
  bool boolean(bool) override { return depth_ > 0; }
  bool null() override { return depth_ > 0; }
  bool binary(binary_t&) override { return depth_ > 0; }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    found.is_cut = true;
    return false;
  }

 private:
  bool begin() {
    ++depth_;
    return true;
  }

  std::int64_t depth_ = 0;
};

}  // namespace

FirstMembers first_members(std::string_view text) {
  MemberEvents events;
  json::sax_parse(text.begin(), text.end(), &events, nlohmann::detail::input_format_t::json, false);
  return std::move(events.found);
}

void refuse_json(const std::string& file, std::int64_t line, std::int64_t offset, const std::string& why) {
  std::string text = file + ": line " + std::to_string(line) + ", byte " + std::to_string(offset + 1);
  throw Error(ExitCode::data, text.append(": is not JSON: ").append(why).append("."));
}

JsonItems::JsonItems(const std::string& file, const std::string& encoding, const std::vector<std::string>& members,
                     const char* item)
    : source_(file, encoding), item_(item), holder_(find_holder(members)) {
  if (holder_ == Holder::list || holder_ == Holder::document) {
    next_byte();
    source_.consume(1, 0);
  }
  if (holder_ == Holder::document && !find_data(true)) {
    throw Error(ExitCode::data, file + ": has no list in \"data\".");
  }
}

JsonItems::Holder JsonItems::find_holder(const std::vector<std::string>& members) {
  for (std::size_t wanted = first_look;; wanted = std::min(8 * wanted, longest_record)) {
    const std::string_view text = source_.peek(wanted);
    const std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
    if (begin < text.size() && text[begin] == '[') return Holder::list;
    if (begin == text.size() || text[begin] != '{') return Holder::lines;
    const std::string_view object = text.substr(begin);
    const FirstMembers found = first_members(object);
    const bool is_item = std::any_of(found.names.begin(), found.names.end(), [&](const std::string& name) {
      return std::find(members.begin(), members.end(), name) != members.end();
    });
    if (found.has_list && !is_item) return Holder::document;
    if (found.is_cut && text.size() >= wanted && wanted < longest_record) continue;
    if (!found.is_object) return members.empty() ? Holder::document : Holder::lines;
    ValueEnd end;
    const bool ends = end.find(object);
    return ends && count_lines(object.substr(0, end.size())) > 0 ? Holder::objects : Holder::lines;
  }
}

bool JsonItems::next(std::string_view& text) {
  if (at_end_) return false;
  switch (holder_) {
    case Holder::lines:
      return next_line(text);
    case Holder::objects:
      return next_object(text);
    default:
      return next_element(text);
  }
}

bool JsonItems::next_line(std::string_view& text) {
  if (!source_.next_filled_line(text, line_)) return false;
  ++number_;
  return true;
}

bool JsonItems::next_object(std::string_view& text) {
  if (next_byte() == no_byte && source_.peek(1).empty()) {
    at_end_ = true;
    return false;
  }
  begin_item();
  text = value(item_ + ' ' + std::to_string(number_));
  if (text.empty()) refuse("a bracket has no partner");
  return true;
}

bool JsonItems::next_element(std::string_view& text) {
  if (next_byte() == ']') {
    source_.consume(1, 0);
    at_end_ = true;
    if (holder_ == Holder::list) {
      end_file(']');
    } else if (find_data(false)) {
      throw Error(ExitCode::data, file() + ": has \"data\" twice.");
    }
    return false;
  }
  const std::string otherwise = "a comma or ] is missing after ";
  if (number_ > 0) take(',', (otherwise + item_ + ' ' + std::to_string(number_)).c_str());
  next_byte();
  begin_item();
  text = value(item_ + ' ' + std::to_string(number_));
  return true;
}

void JsonItems::begin_item() {
  ++number_;
  line_ = source_.line();
  offset_ = source_.offset();
}

/// Nothing but blanks may follow the bracket that closes everything.
void JsonItems::end_file(char bracket) {
  if (next_byte() == no_byte && source_.peek(1).empty()) return;
  refuse(std::string("something follows after its last ") + bracket);
}

/// Members of the outermost object, up to the list in "data"; false if the object and the file end before.
bool JsonItems::find_data(bool first) {
  for (;; first = false) {
    if (next_byte() == '}') {
      source_.consume(1, 0);
      end_file('}');
      return false;
    }
    if (!first) take(',', "a comma or } is missing after a member");
    if (next_byte() != '"') refuse("a name in quotes is missing");
    const std::int64_t line = source_.line(), offset = source_.offset();
    const json name = core::parse_json(value("a name"));
    if (!name.is_string()) refuse_json(file(), line, offset, "a name cannot be read");
    take(':', "a colon is missing after a name");
    if (name == "data" && next_byte() == '[') {
      source_.consume(1, 0);
      return true;
    }
    skip_value();
  }
}

/// The next byte that is not blank, which stays at the front; no_byte at the end of the file.
char JsonItems::next_byte() {
  for (;;) {
    const std::string_view text = source_.peek(1);
    const std::size_t end = std::min(text.find_first_not_of(" \t\r\n"), text.size());
    source_.consume(end, count_lines(text.substr(0, end)));
    if (text.empty() || end < text.size()) return text.empty() ? no_byte : text[end];
  }
}

void JsonItems::take(char byte, const char* otherwise) {
  if (next_byte() != byte) refuse(otherwise);
  source_.consume(1, 0);
}

/// Skips a value that no column is made of; it must be JSON nevertheless.
void JsonItems::skip_value() {
  next_byte();
  const std::int64_t line = source_.line(), offset = source_.offset();
  const std::string_view text = value("a value");
  // The parser would skip a byte order mark, and take a zero for the end.
  const bool odd = text.starts_with('\xEF') || text.find('\0') != std::string_view::npos;
  if (odd || !json::accept(text)) refuse_json(file(), line, offset, "a value cannot be read");
}

/// The bytes of the value at the front, which are consumed. They last until the next call of anything here.
std::string_view JsonItems::value(const std::string& name) {
  const auto at = [this] {
    return file() + ": line " + std::to_string(source_.line()) + ", byte " + std::to_string(source_.offset() + 1) +
           ": ";
  };
  ValueEnd end;
  std::string_view text = source_.peek(1);
  while (!end.find(text)) {
    const std::size_t known = text.size();
    if (known >= longest_record) {
      throw Error(ExitCode::data,
                  at() + name + " is longer than 64 MiB; is a bracket or quote never closed? Otherwise split it.");
    }
    text = source_.peek(known + 1);
    if (text.size() > known) continue;
    if (holder_ == Holder::objects) {  // nothing follows that an end could be missed in
      source_.consume(text.size(), count_lines(text));
      return text;
    }
    throw Error(ExitCode::data, at() + "the file ends within " + name + '.');
  }
  text = text.substr(0, end.size());
  source_.consume(text.size(), count_lines(text));
  return text;
}

void JsonItems::refuse(const std::string& why) const {
  refuse_json(file(), source_.line(), source_.offset(), why);
}

}  // namespace bert_hpc::prep
