#include "json_scan.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "json_value.hpp"

namespace bert_hpc::prep {
namespace {

using nlohmann::json;
using Kind = FirstMembers::Kind;

/// Walks the object at the front of a text.
class MemberEvents : public nlohmann::json_sax<json> {
 public:
  FirstMembers found;

  bool key(string_t& name) override {
    if (depth_ == 1) found.names.push_back(name);
    if (depth_ == 2 && found.names.size() == 1) found.inner.push_back(name);
    return true;
  }
  bool start_object(std::size_t) override { return begin(Kind::object); }
  bool start_array(std::size_t) override {
    if (depth_ == 2 && is_first_) found.kinds.back() = Kind::lists;
    if (depth_ == 1 && found.names.back() == "data") found.has_list = true;
    return begin(Kind::list);
  }
  bool end_object() override {
    found.is_object = --depth_ == 0;
    return depth_ > 0;
  }
  bool end_array() override { return --depth_ > 0; }
  bool string(string_t&) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool boolean(bool) override { return value(); }
  bool null() override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    found.is_cut = true;
    return false;
  }

 private:
  bool begin(Kind kind) {
    if (depth_ == 1) found.kinds.push_back(kind);
    is_first_ = depth_ == 1 && kind == Kind::list;
    ++depth_;
    return true;
  }
  bool value() {
    if (depth_ == 1) found.kinds.push_back(Kind::value);
    is_first_ = false;
    return depth_ > 0;
  }

  std::int64_t depth_ = 0;
  bool is_first_ = false;  // the next value is the first of a member's list
};

}  // namespace

bool ValueEnd::find(std::string_view text) {
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

bool ValueEnd::ends_after() {
  ++at_;
  return true;
}

bool ValueEnd::is_escaped(std::string_view text) const {
  std::size_t first = at_;
  while (first > 0 && text[first - 1] == '\\') --first;
  return (at_ - first) % 2 == 1;
}

FirstMembers first_members(std::string_view text) {
  const auto walk = [](std::string_view object) {
    MemberEvents events;
    json::sax_parse(object.begin(), object.end(), &events, nlohmann::detail::input_format_t::json, false);
    return std::move(events.found);
  };
  FirstMembers found = walk(text);
  return found.is_cut && may_have_nan(text) ? walk(with_nulls(text)) : found;
}

void refuse_json(const std::string& file, std::int64_t line, std::int64_t offset, const std::string& why) {
  std::string text = file + ": line " + std::to_string(line) + ", byte " + std::to_string(offset + 1);
  throw core::Error(core::ExitCode::data, text.append(": is not JSON: ").append(why).append("."));
}

}  // namespace bert_hpc::prep
