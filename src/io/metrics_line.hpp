// A line of the metrics journal: a kind and fields, separated by tabs; tab, newline and backslash in text are escaped.
// One function template `fields(Visitor&, Row&)` per row type lists the fields; LineWriter and LineReader are the
// visitors. Private to io.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace bert_hpc::io::detail {

class LineWriter {
 public:
  explicit LineWriter(const char* kind) : text_(kind) {}

  template <class... Fields>
  void operator()(const Fields&... values) {
    (write(values), ...);
  }
  /// Writes a count, then each element's fields with `each(*this, element)`.
  template <class Rows, class Each>
  void list(const Rows& rows, const Each& each) {
    write(static_cast<std::int64_t>(rows.size()));
    for (const auto& row : rows) each(*this, row);
  }
  /// A trailing field or list, which lines of older versions lack.
  template <class Field>
  void last(const Field& value) {
    write(value);
  }
  template <class Rows, class Each>
  void last_list(const Rows& rows, const Each& each) {
    list(rows, each);
  }
  std::string take() { return std::move(text_); }

 private:
  void write(const std::string& field) {
    text_ += '\t';
    for (const char c : field) {
      if (c == '\t' || c == '\n' || c == '\\') text_ += '\\';
      text_ += c == '\t' ? 't' : c == '\n' ? 'n' : c;
    }
  }
  // The shortest digits that read back as the same number.
  template <class Number>
  void write(Number field) {
    char digits[40];
    const auto result = std::to_chars(digits, digits + sizeof digits, field);
    text_ += '\t';
    text_.append(digits, result.ptr);
  }

  std::string text_;
};

struct Nonsense {};  ///< thrown by LineReader if a field is missing or is not a number

class LineReader {
 public:
  explicit LineReader(std::string_view line) : rest_(line) {}

  bool done() const { return finished_; }
  template <class... Fields>
  void operator()(Fields&... values) {
    (read(values), ...);
  }
  template <class Rows, class Each>
  void list(Rows& rows, const Each& each) {
    std::int64_t count = 0;
    read(count);
    // Each element has at least one field, so a line has no more elements than characters.
    if (count < 0 || static_cast<std::size_t>(count) > rest_.size()) throw Nonsense{};
    rows.resize(static_cast<std::size_t>(count));
    for (auto& row : rows) each(*this, row);
  }
  template <class Field>
  void last(Field& value) {
    if (!finished_) read(value);
  }
  template <class Rows, class Each>
  void last_list(Rows& rows, const Each& each) {
    if (!finished_) list(rows, each);
  }

 private:
  std::string_view raw() {
    if (finished_) throw Nonsense{};
    const std::size_t end = rest_.find('\t');
    const std::string_view field = rest_.substr(0, end);
    finished_ = end == std::string_view::npos;
    rest_.remove_prefix(finished_ ? rest_.size() : end + 1);
    return field;
  }
  void read(std::string& field) {
    const std::string_view escaped = raw();
    field.clear();
    for (std::size_t i = 0; i < escaped.size(); ++i) {
      const bool escape = escaped[i] == '\\';
      if (escape && ++i == escaped.size()) throw Nonsense{};
      field += !escape ? escaped[i] : escaped[i] == 't' ? '\t' : escaped[i] == 'n' ? '\n' : '\\';
    }
  }
  template <class Number>
  void read(Number& field) {
    const std::string_view text = raw();
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), field);
    if (problem != std::errc{} || end != text.data() + text.size()) throw Nonsense{};
  }

  std::string_view rest_;
  bool finished_ = false;
};

}  // namespace bert_hpc::io::detail
