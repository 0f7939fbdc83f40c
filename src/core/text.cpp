#include "bert_hpc/core/text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace bert_hpc::core {

namespace {

template <class... Values>
std::string formatted(const char* format, Values... values) {
  char buffer[128];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

std::string initials(std::string_view name) {
  std::string result;
  bool begins = true;
  for (const char c : name) {
    if (begins && c != '_') result += c;
    begins = c == '_';
  }
  return result;
}

/// Length of the valid UTF-8 sequence at the start of text; 0 if it is invalid.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 && lead <= 0xF4 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 0;
  if (length == 0 || lead > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  const bool beyond = (lead == 0xED && byte(1) >= 0xA0) || (lead == 0xF4 && byte(1) >= 0x90);
  const bool c1_control = lead == 0xC2 && byte(1) < 0xA0;
  return overlong || beyond || c1_control ? 0 : length;
}

}  // namespace

std::string with_commas(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t position = digits.size(); position > first + 3;) {
    position -= 3;
    digits.insert(position, 1, ',');
  }
  return digits;
}

std::string format_bytes(std::int64_t bytes) {
  static constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (std::abs(static_cast<double>(bytes)) < 1024.0) return counted(bytes, "byte");
  double value = static_cast<double>(bytes) / 1024.0;
  std::size_t unit = 0;
  // 1023.95 would print as "1024.0".
  while (std::abs(value) >= 1023.95 && unit + 1 < std::size(units)) {
    value /= 1024.0;
    ++unit;
  }
  return formatted("%.1f %s", value, units[unit]);
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e15) return "?";
  if (seconds > 0 && seconds < 0.00995) return formatted("%.2g ms", seconds * 1000);
  if (seconds < 0.995) return formatted("%.2f s", seconds);
  if (seconds < 9.95) return formatted("%.1f s", seconds);
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 60) return formatted("%lld s", whole);
  if (whole < 3600) return formatted("%lld min %02lld s", whole / 60, whole % 60);
  const long long minutes = (whole + 30) / 60;
  if (minutes < 24 * 60) return formatted("%lld h %02lld min", minutes / 60, minutes % 60);
  const long long hours = (whole + 1800) / 3600;
  constexpr long long day = 24, year = 8766;  // hours
  if (hours >= 2 * year) return formatted("%.1f years", static_cast<double>(hours) / year);
  if (hours >= 60 * day) return formatted("%lld days", (hours + day / 2) / day);
  return formatted("%lld d %02lld h", hours / 24, hours % 24);
}

std::string format_number(double value, int digits) {
  if (std::isnan(value)) return "nan";  // without the sign that some processors print
  constexpr double max_written_out = 1e7;
  const double size = std::abs(value);
  if (size >= std::pow(10.0, digits) - 0.5 && size < max_written_out) return with_commas(std::llround(value));
  return formatted("%.*g", digits, value);
}

std::string format_metric(double value, int digits) {
  static constexpr const char* prefixes[] = {"", " k", " M", " G", " T", " P", " E"};
  if (!std::isfinite(value)) return format_number(value);
  std::size_t prefix = 0;
  // Rounded to `digits` first: 999,999 is "1.00 M" and not "1000 k".
  const double limit = 1000.0 - 0.5 * std::pow(10.0, 3 - digits);
  while (std::abs(value) >= limit && prefix + 1 < std::size(prefixes)) {
    value /= 1000.0;
    ++prefix;
  }
  if (prefix == 0) return format_number(value, digits);
  const double size = std::abs(value);
  const int before = size >= 99.95 ? 3 : size >= 9.995 ? 2 : 1;
  return formatted("%.*f%s", std::max(0, digits - before), value, prefixes[prefix]);
}

std::string counted(std::int64_t count, std::string_view singular, std::string_view plural) {
  std::string result = with_commas(count) + ' ';
  if (count == 1) return result += singular;
  return plural.empty() ? (result += singular) + 's' : result += plural;
}

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replaced = row[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) next[j] = std::min(next[j], before[j - 2] + 1);
    }
    before.swap(row);
    row.swap(next);
  }
  return row[b.size()];
}

std::string folded(std::string_view name) {
  std::string result(name);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-' || c == ' ') c = '_';
  }
  return result;
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  if (name.size() > 100) return {};
  const std::string wanted = folded(name);
  const std::string* best = nullptr;
  int best_distance = 0;
  for (const std::string& candidate : candidates) {
    const int distance = edit_distance(wanted, folded(candidate));
    const int allowed = static_cast<int>(std::max(wanted.size(), candidate.size()) + 2) / 4;
    if (distance <= allowed && (best == nullptr || distance < best_distance)) {
      best = &candidate;
      best_distance = distance;
    }
  }
  if (best != nullptr) return *best;
  const std::string* match = nullptr;
  for (const std::string& candidate : candidates) {
    const std::string other = folded(candidate);
    const bool begins = wanted.size() >= 3 && (other.starts_with(wanted) || other.ends_with('_' + wanted));
    if (!begins && !(wanted.size() >= 2 && initials(other) == wanted)) continue;
    if (match != nullptr) return {};
    match = &candidate;
  }
  return match != nullptr ? *match : std::string{};
}

std::string listed(const std::vector<std::string>& items, std::string_view last_word, bool quote) {
  std::string result;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) {
      if (i + 1 < items.size()) {
        result += ", ";
      } else {
        (((result += ' ') += last_word) += ' ');
      }
    }
    result += quote ? '"' + items[i] + '"' : items[i];
  }
  return result;
}

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = std::min(text.find_first_of("\r\n", start), text.size());
    lines.emplace_back(text.substr(start, end - start));
    start = end + 1;
    if (end + 1 < text.size() && text[end] == '\r' && text[end + 1] == '\n') ++start;
  }
  return lines;
}

std::string ranges_text(std::span<const int> numbers, std::size_t most) {
  std::string text;
  std::size_t runs = 0;
  for (std::size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    for (end = begin + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1;) ++end;
    if (begin > 0) text += ", ";
    if (runs++ == most) return text + "…";
    text += std::to_string(numbers[begin]);
    if (end - begin == 2) text += ", ";
    if (end - begin > 2) text += '-';
    if (end - begin > 1) text += std::to_string(numbers[end - 1]);
  }
  return text;
}

std::string list_text(std::span<const std::int64_t> numbers) {
  std::string text = "[";
  for (const std::int64_t number : numbers) text += (text.size() > 1 ? ", " : "") + std::to_string(number);
  return text + ']';
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    const unsigned char byte = static_cast<unsigned char>(text[i]);
    const bool shown = length > 0 && byte >= 0x20 && byte != 0x7F;
    const std::string piece = shown          ? std::string(text.substr(i, length))
                              : byte == '\t' ? "\\t"
                              : byte == '\n' ? "\\n"
                                             : formatted("\\x%02X", byte);
    if (result.size() + piece.size() > limit) return result + "…";
    result += piece;
    i += shown ? length : 1;
  }
  return result;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(ascii_blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(ascii_blanks) - first + 1);
}

}  // namespace bert_hpc::core
