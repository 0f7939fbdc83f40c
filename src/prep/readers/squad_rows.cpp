// SQuAD's JSON and its relatives (json_items.hpp has the holders): articles of paragraphs of questions, as published; a
// list of paragraphs, as simpletransformers reads it; questions with their contexts, in a list or on a line each.
#include <algorithm>
#include <utility>

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/prep/readers/row_reader.hpp"
#include "column_words.hpp"
#include "json_items.hpp"
#include "squad_article.hpp"
#include "squad_columns.hpp"
#include "squad_question.hpp"

namespace bert_hpc::prep {
namespace {

using Holder = JsonItems::Holder;

enum class Item { article, paragraph, question };

/// Kind of a file's first value, by its members.
Item kind_of(std::string_view text, const JsonItems& items) {
  const FirstMembers found = first_members(text);
  const auto has = [&](const char* name) {
    return std::find(found.names.begin(), found.names.end(), name) != found.names.end();
  };
  if (items.holder() == Holder::lines || items.holder() == Holder::objects) {
    if (has("data")) refuse_squad(items.file() + ": has no list in \"data\"");
    if (!text.starts_with('{')) refuse_squad(items.file() + ": does not begin with { or [");
    const bool is_whole = found.is_object && (has("context") || has("question") || has("answers"));
    if (!is_whole) refuse_squad(items.file() + ": has no \"data\"");
    return Item::question;
  }
  if (has("paragraphs")) return Item::article;
  if (has("qas")) return Item::paragraph;
  return has("question") || has("answers") ? Item::question : Item::article;
}

class SquadRows : public RowReader {
 public:
  SquadRows(const std::string& file, const std::string& encoding, std::vector<std::size_t> indices)
      : items_(file, encoding, JsonItems::Members(), "article"), columns_(std::move(indices)) {
    has_item_ = items_.next(item_);
    if (has_item_) kind_ = kind_of(item_, items_);
  }

  bool next(Row& row) override { return kind_ == Item::question ? next_flat(row) : next_nested(row); }

 private:
  /// The next value in item_; false after the last.
  bool next_item() { return std::exchange(has_item_, false) || items_.next(item_); }

  bool next_flat(Row& row) {
    if (!next_item()) return false;
    row.number = ++number_;
    row.line = items_.line();
    if (std::string problem = flat_.read(item_); !problem.empty()) {
      columns_.fail(std::move(problem), row);
    } else {
      columns_.fill(flat_.question, flat_.title, flat_.context, row);
    }
    return true;
  }

  bool next_nested(Row& row) {
    while (paragraph_ == article_.paragraphs.size() || question_ == article_.paragraphs[paragraph_].questions.size()) {
      question_ = 0;
      if (paragraph_ < article_.paragraphs.size()) {
        ++paragraph_;
        continue;
      }
      if (!next_item()) return false;
      read_item();
      paragraph_ = 0;
    }
    SquadParagraph& paragraph = article_.paragraphs[paragraph_];
    row.number = ++number_;
    row.line = items_.line();
    columns_.fill(paragraph.questions[question_++], article_.title, paragraph.context, row);
    return true;
  }

  void read_item() {
    const ArticleLocation location = {items_.file(), items_.number(), items_.line(), items_.offset()};
    if (!item_.starts_with('{')) {
      refuse_squad(location.file + ": line " + std::to_string(location.line) + ", byte " +
                   std::to_string(location.offset + 1) + ": article " + std::to_string(location.number) +
                   " is not an object");
    }
    article_ = read_squad_article(item_, location, kind_ == Item::paragraph);
  }

  JsonItems items_;
  std::string_view item_;
  bool has_item_ = false;  // item_ has been read and not been used
  Item kind_ = Item::article;
  SquadColumns columns_;
  FlatQuestion flat_;
  SquadArticle article_;
  std::size_t paragraph_ = 0, question_ = 0;  // the next row's
  std::int64_t number_ = 0;
};

std::unique_ptr<RowReader> open(const std::string& file, const RowFormat& format,
                                const std::vector<std::string>& columns) {
  return std::make_unique<SquadRows>(file, format.encoding,
                                     column_indices(file, *format.format, format.format->columns, columns));
}

}  // namespace

const TextFormat& squad_format() {
  static const TextFormat format{
      .name = "squad",
      .title = "SQuAD",
      .columns = {"id", "title", "question", "context", "is_impossible", "answer_text", "answer_start", "answers"},
      .open = open};
  return format;
}

}  // namespace bert_hpc::prep
