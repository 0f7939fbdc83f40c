// SQuAD's JSON: the file is one document of any size (or JSON Lines: squad_lines.hpp). Its outermost object and the
// list of its articles are walked here; one article at a time is cut out, by its brackets alone, and given to the JSON
// parser.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/prep/readers/line_source.hpp"
#include "bert_hpc/prep/readers/row_reader.hpp"
#include "bert_hpc/tokenize/utf8.hpp"
#include "column_words.hpp"
#include "squad_article.hpp"
#include "squad_columns.hpp"
#include "squad_lines.hpp"

namespace bert_hpc::prep {
namespace {

using core::Error;
using core::ExitCode;
using nlohmann::json;

/// Finds the end of the JSON value at the front of a text that grows. What is between its brackets is not looked at.
class ValueEnd {
 public:
  /// Is the end in `text`? Then size() is the value's; else `text` is scanned, and the scan continues when more follows
  /// it.
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

/// The articles of a file, one after the other.
class SquadFile {
 public:
  explicit SquadFile(const std::string& file) : source_(file) {
    if (next_byte() != '{') refuse_squad(file + ": does not begin with {");
    source_.consume(1, 0);
    if (!find_data(true)) refuse_squad(file + ": has no \"data\"");
  }

  const std::string& file() const { return source_.file(); }
  const ArticlePlace& place() const { return place_; }

  /// False after the last article, and then the file has been read to its end.
  bool next(SquadArticle& article) {
    if (at_end_) return false;
    const bool first = place_.number == 0;
    const char byte = next_byte();
    if (byte == ']') {
      source_.consume(1, 0);
      at_end_ = true;
      if (find_data(false)) refuse_squad(file() + ": has \"data\" twice");
      return false;
    }
    if (!first) take(',', "a comma or ] is missing after an article");
    next_byte();
    place_ = {file(), place_.number + 1, source_.line(), source_.offset()};
    const std::string name = "article " + std::to_string(place_.number);
    const std::string_view text = value(name);
    if (!text.starts_with('{')) refuse_squad(at(place_.line, place_.offset) + name + " is not an object");
    article = read_squad_article(text, place_);
    return true;
  }

 private:
  static constexpr char no_byte = '\0';

  /// The next byte that is not blank, which stays at the front; no_byte at the end of the file.
  char next_byte() {
    for (;;) {
      const std::string_view text = source_.peek(1);
      const std::size_t end = std::min(text.find_first_not_of(" \t\r\n"), text.size());
      source_.consume(end, lines(text.substr(0, end)));
      if (text.empty() || end < text.size()) return text.empty() ? no_byte : text[end];
    }
  }

  void take(char byte, const char* otherwise) {
    if (next_byte() != byte) refuse_json(file(), source_.line(), source_.offset(), otherwise);
    source_.consume(1, 0);
  }

  /// Members of the outermost object, up to the list in "data"; false where the object and the file end before.
  bool find_data(bool first) {
    for (;; first = false) {
      if (next_byte() == '}') {
        source_.consume(1, 0);
        if (next_byte() == no_byte && source_.peek(1).empty()) return false;
        refuse_json(file(), source_.line(), source_.offset(), "something follows after its last }");
      }
      if (!first) take(',', "a comma or } is missing after a member");
      if (next_byte() != '"') refuse_json(file(), source_.line(), source_.offset(), "a name in quotes is missing");
      const std::int64_t line = source_.line(), offset = source_.offset();
      const json name = core::parse_json(value("a name"));
      if (!name.is_string()) refuse_json(file(), line, offset, "a name cannot be read");
      take(':', "a colon is missing after a name");
      const bool is_list = next_byte() == '[';
      if (name == "data") {
        if (!is_list) refuse_squad(file() + ": has no list in \"data\"");
        source_.consume(1, 0);
        return true;
      }
      skip_value();
    }
  }

  /// Skips a value that no column is made of; it must be JSON nevertheless.
  void skip_value() {
    const std::int64_t line = source_.line(), offset = source_.offset();
    const std::string_view text = value("a value");
    // The parser would skip a byte order mark, and take a zero for the end.
    const bool odd = text.starts_with('\xEF') || text.find('\0') != std::string_view::npos;
    if (odd || !json::accept(text)) refuse_json(file(), line, offset, "a value cannot be read");
  }

  /// The bytes of the value at the front, which are consumed. They last until the next call of anything here.
  std::string_view value(const std::string& name) {
    ValueEnd end;
    std::string_view text = source_.peek(1);
    while (!end.find(text)) {
      const std::size_t known = text.size();
      if (known >= longest_record) {
        throw Error(ExitCode::data,
                    at(source_.line(), source_.offset()) + name +
                        " is longer than 64 MiB; is a bracket or quote never closed? Otherwise split it "
                        "into several articles.");
      }
      text = source_.peek(known + 1);
      if (text.size() == known)
        throw Error(ExitCode::data, at(source_.line(), source_.offset()) + "the file ends within " + name + '.');
    }
    text = text.substr(0, end.size());
    source_.consume(text.size(), lines(text));
    return text;
  }

  std::string at(std::int64_t line, std::int64_t offset) const {
    return file() + ": line " + std::to_string(line) + ", byte " + std::to_string(offset + 1) + ": ";
  }

  static std::int64_t lines(std::string_view text) { return std::count(text.begin(), text.end(), '\n'); }

  LineSource source_;
  ArticlePlace place_;
  bool at_end_ = false;
};

class SquadRows : public RowReader {
 public:
  SquadRows(const std::string& file, const TextFormat& format, const std::vector<std::string>& columns)
      : articles_(file), columns_(column_places(file, format, format.columns, columns)) {}

  bool next(Row& row) override {
    while (paragraph_ == article_.paragraphs.size() || question_ == article_.paragraphs[paragraph_].questions.size()) {
      question_ = 0;
      if (paragraph_ < article_.paragraphs.size()) {
        ++paragraph_;
        continue;
      }
      if (!articles_.next(article_)) return false;
      paragraph_ = 0;
    }
    SquadParagraph& paragraph = article_.paragraphs[paragraph_];
    row.number = ++number_;
    row.line = articles_.place().line;
    columns_.fill(paragraph.questions[question_++], article_.title, paragraph.context, row);
    return true;
  }

 private:
  SquadFile articles_;
  SquadColumns columns_;
  SquadArticle article_;
  std::size_t paragraph_ = 0, question_ = 0;  // the next row's
  std::int64_t number_ = 0;
};

std::unique_ptr<RowReader> open(const std::string& file, const RowFormat& format,
                                const std::vector<std::string>& columns) {
  if (holds_squad_lines(file)) {
    return open_squad_lines(file, column_places(file, *format.format, format.format->columns, columns));
  }
  return std::make_unique<SquadRows>(file, *format.format, columns);
}

}  // namespace

const TextFormat& squad_format() {
  static const TextFormat format{
      .name = "squad",
      .title = "SQuAD",
      .columns = {"id", "title", "question", "context", "is_impossible", "answer_text", "answer_start", "answers"},
      .only_utf8 = "whose files are JSON",
      .open = open};
  return format;
}

}  // namespace bert_hpc::prep
