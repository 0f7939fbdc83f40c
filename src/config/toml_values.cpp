#include "toml_values.hpp"

#include <algorithm>
#include <cmath>

#include "bert_hpc/core/text.hpp"
#include "synonyms.hpp"

namespace bert_hpc::config {

namespace {

using Kind = TomlValue::Kind;

std::string bound(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  return whole ? std::to_string(static_cast<std::int64_t>(value)) : core::format_number(value, 6);
}

ValueProblem problem(const TomlValue& value, const std::string& text) {
  return {value.location, value.name + ' ' + text};
}

ValueProblem wrong_type(const TomlValue& value, const std::string& wanted, const std::string& hint = {}) {
  return problem(value, "must be " + wanted + ", but is " + value.description() + hint);
}

ValueProblem out_of_range(const TomlValue& value, const std::string& shown, const std::string& allowed) {
  return problem(value, "= " + shown + " is out of range: it must be " + allowed);
}

bool begins_with_digit(const std::string& text) {
  return !text.empty() && text[0] >= '0' && text[0] <= '9';
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// "; did you mean …" with the choice that an unknown value stands for.
std::string meant_choice(const std::string& text, const Choices& choices) {
  std::string choice =
      suggested_value(text, [&choices](const std::string& name) { return contains(choices.names, name); });
  if (choice.empty()) choice = core::nearest_name(text, choices.names);
  return choice.empty() ? "" : "; did you mean \"" + choice + "\"?";
}

/// An entry of a list, with name and position for messages.
TomlValue entry_of(const TomlValue& list, const TomlValue& child, std::size_t number) {
  TomlValue named = child;
  named.name = list.name + " (entry " + std::to_string(number) + ")";
  if (list.location.source > 0) named.location = list.location;
  return named;
}

}  // namespace

bool Range::contains(double value) const {
  const bool multiple = step == 0 || value / step == std::floor(value / step);
  return multiple && (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
}

std::string Range::text() const {
  if (step > 0) {
    const std::string rest = Range{low, high, low_open, high_open}.text();
    return "a multiple of " + bound(step) + (rest.empty() ? "" : ' ' + rest);
  }
  const bool has_low = std::isfinite(low), has_high = std::isfinite(high);
  if (has_low && has_high) {
    return (low_open ? "above " : "from ") + bound(low) + (high_open ? " to below " : " to ") + bound(high);
  }
  if (has_low) return (low_open ? "above " : "at least ") + bound(low);
  if (has_high) return (high_open ? "below " : "at most ") + bound(high);
  return {};
}

ValueProblem read_value(const TomlValue& value, bool& result) {
  if (value.kind != Kind::boolean) return wrong_type(value, "true or false");
  result = value.boolean;
  return {};
}

ValueProblem read_value(const TomlValue& value, std::int64_t& result, const Range& range) {
  if (value.kind != Kind::integer) {
    std::string hint;
    if (value.kind == Kind::text && begins_with_digit(value.text)) hint = ": write it without quotes";
    if (value.kind == Kind::number && value.number == std::floor(value.number) && std::abs(value.number) < 1e15) {
      hint = ": write " + bound(value.number);
    }
    return wrong_type(value, "a whole number", hint);
  }
  if (!range.contains(static_cast<double>(value.integer))) {
    const bool above_zero = range.low == 0 && range.low_open && !std::isfinite(range.high);
    return out_of_range(value, std::to_string(value.integer), above_zero ? "at least 1" : range.text());
  }
  result = value.integer;
  return {};
}

ValueProblem read_value(const TomlValue& value, double& result, const Range& range) {
  if (value.kind != Kind::number && value.kind != Kind::integer) {
    const bool quoted = value.kind == Kind::text && begins_with_digit(value.text);
    return wrong_type(value, "a number", quoted ? ": write it without quotes" : "");
  }
  const double number = value.kind == Kind::number ? value.number : static_cast<double>(value.integer);
  if (!std::isfinite(number) || !range.contains(number)) {
    const std::string allowed = range.text();
    return out_of_range(value, toml_number(number), allowed.empty() ? "finite" : allowed);
  }
  result = number;
  return {};
}

ValueProblem read_value(const TomlValue& value, std::string& result, const Choices& choices) {
  if (value.kind != Kind::text) return wrong_type(value, "a string in quotes");
  const std::string shown = "= \"" + core::printable(value.text, 80) + '"';
  if (!choices.names.empty() && !contains(choices.names, value.text)) {
    return problem(value, shown + " is unknown: it must be " + core::listed(choices.names, "or") +
                              meant_choice(value.text, choices));
  }
  // A file name would be cut off there.
  if (value.text.find('\0') != std::string::npos) return problem(value, shown + " holds a null character");
  result = value.text;
  return {};
}

ValueProblem read_value(const TomlValue& value, std::vector<std::string>& result) {
  if (value.kind != Kind::text && value.kind != Kind::list) return wrong_type(value, "a list of strings");
  std::vector<std::string> texts;
  if (value.kind == Kind::text) {
    texts.emplace_back();
    if (const auto bad = read_value(value, texts.back(), Choices{}); !bad.text.empty()) return bad;
  }
  for (const TomlValue& child : value.children) {
    texts.emplace_back();
    const auto bad = read_value(entry_of(value, child, texts.size()), texts.back(), Choices{});
    if (!bad.text.empty()) return bad;
  }
  result = std::move(texts);
  return {};
}

ValueProblem read_value(const TomlValue& value, std::vector<double>& result, const Range& each) {
  if (value.kind != Kind::list) return wrong_type(value, "a list of numbers, as in [3, 1]");
  std::vector<double> numbers;
  for (const TomlValue& child : value.children) {
    numbers.emplace_back();
    const auto bad = read_value(entry_of(value, child, numbers.size()), numbers.back(), each);
    if (!bad.text.empty()) return bad;
  }
  result = std::move(numbers);
  return {};
}

}  // namespace bert_hpc::config
