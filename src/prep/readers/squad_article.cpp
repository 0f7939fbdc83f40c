// An article is a chain of lists of objects: paragraphs, their questions ("qas"), their answers. The parser's events
// are checked against a table of the members that count; everything else is skipped.
#include "squad_article.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "json_items.hpp"
#include "json_value.hpp"

namespace bert_hpc::prep {
namespace {

using core::Error;
using core::ExitCode;
using nlohmann::json;

constexpr int deepest = 100;  // of what is skipped

enum Kind : unsigned { text = 1, integer = 2, truth = 4, list = 8 };
enum class Field { title, paragraphs, context, questions, id, question, impossible, answers, answer, start };

struct Member {
  Field field;
  const char* name;
  unsigned kinds;         // that it may have
  const char* should_be;  // in words
  bool required;
};

constexpr Member article_members[] = {{Field::title, "title", text, "a string", false},
                                      {Field::paragraphs, "paragraphs", list, "a list", true}};
constexpr Member paragraph_members[] = {{Field::context, "context", text, "a string", true},
                                        {Field::questions, "qas", list, "a list", true}};
constexpr Member question_members[] = {{Field::id, "id", text | integer, "a string", true},
                                       {Field::question, "question", text, "a string", true},
                                       {Field::impossible, "is_impossible", truth, "true or false", false},
                                       {Field::answers, "answers", list, "a list", false}};
constexpr Member answer_members[] = {{Field::answer, "text", text, "a string", true},
                                     {Field::start, "answer_start", integer, "a whole number", true}};

struct Level {
  const char* name;
  std::span<const Member> members;
};
constexpr std::array<Level, 4> levels = {{{"article", article_members},
                                          {"paragraph", paragraph_members},
                                          {"question", question_members},
                                          {"answer", answer_members}}};

class ArticleEvents : public nlohmann::json_sax<json> {
 public:
  /// outer: number of levels around the text: 0 of an article, 1 of a paragraph.
  ArticleEvents(std::string_view source, const ArticleLocation& location, std::size_t outer)
      : source_(source), location_(location), outer_(outer), depth_(outer), in_list_(outer > 0) {}

  SquadArticle article;

  bool key(string_t& name) override {
    if (skipped_ > 0) return true;
    const auto& members = current().members;
    const auto found = std::find_if(members.begin(), members.end(), [&](const Member& m) { return name == m.name; });
    member_ = found == members.end() ? nullptr : &*found;
    if (member_ == nullptr) return true;
    const unsigned bit = 1u << (found - members.begin());
    if ((seen_[depth_ - 1] & bit) != 0) refuse("has \"" + name + "\" twice");
    seen_[depth_ - 1] |= bit;
    return true;
  }

  bool start_object(std::size_t) override {
    if (depth_ > 0 && !in_list_) {
      if (skips()) return enter_skipped();
      mistyped("an object");
    }
    in_list_ = false;
    member_ = nullptr;
    seen_[depth_++] = 0;
    if (depth_ == 2) article.paragraphs.emplace_back();
    if (depth_ == 3) article.paragraphs.back().questions.emplace_back();
    if (depth_ == 4) answer_ = {};
    ++number_[depth_ - 1];
    return true;
  }

  bool end_object() override {
    if (skipped_ > 0) return leave_skipped();
    const auto& members = current().members;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const bool lacks = members[i].required && (seen_[depth_ - 1] >> i & 1) == 0;
      if (lacks) refuse(std::string("has no \"") + members[i].name + '"');
    }
    if (depth_ == 4) question().answers.push_back(std::move(answer_));
    in_list_ = --depth_ > 0;
    return true;
  }

  bool start_array(std::size_t) override {
    if (skips()) return enter_skipped();
    expect(list, "a list");
    in_list_ = true;
    if (member_->field == Field::answers) question().lists_answers = true;
    number_[depth_] = 0;
    return true;
  }

  bool end_array() override {
    if (skipped_ > 0) return leave_skipped();
    in_list_ = false;
    return true;
  }

  bool string(string_t& value) override {
    if (skips()) return true;
    expect(text, "a string");
    switch (member_->field) {
      case Field::title:
        article.title = std::move(value);
        break;
      case Field::context:
        article.paragraphs.back().context = std::move(value);
        break;
      case Field::id:
        question().id = std::move(value);
        break;
      case Field::question:
        question().text = std::move(value);
        break;
      default:
        answer_.text = std::move(value);
    }
    return true;
  }

  bool number_integer(number_integer_t value) override {
    if (skips()) return true;
    expect(integer, "a number");
    if (member_->field == Field::id) {
      question().id = std::to_string(value);
    } else {
      answer_.start = value;
    }
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    return number_integer(value > static_cast<number_unsigned_t>(most) ? most : static_cast<std::int64_t>(value));
  }

  bool boolean(bool value) override {
    if (skips()) return true;
    expect(truth, value ? "true" : "false");
    question().impossible = value;
    question().said_impossible = value;
    return true;
  }

  bool null() override { return skips() || mistyped("null"); }
  bool number_float(number_float_t, const string_t&) override { return skips() || mistyped("a number"); }
  bool binary(binary_t&) override { return true; }

  bool parse_error(std::size_t position, const std::string&, const json::exception& error) override {
    const std::size_t before = std::min(source_.size(), position == 0 ? 0 : position - 1);
    const auto lines = std::count(source_.begin(), source_.begin() + static_cast<std::ptrdiff_t>(before), '\n');
    refuse_json(location_.file, location_.line + lines, location_.offset + static_cast<std::int64_t>(before),
                json_problem(error.what()));
  }

 private:
  const Level& current() const { return levels[depth_ - 1]; }
  SquadQuestion& question() { return article.paragraphs.back().questions.back(); }

  /// Whether no column needs the next value.
  bool skips() const { return skipped_ > 0 || (!in_list_ && member_ == nullptr); }
  bool enter_skipped() {
    if (++skipped_ > deepest) refuse("is nested too deep");
    return true;
  }
  bool leave_skipped() {
    --skipped_;
    return true;
  }

  void expect(unsigned kind, const char* is) const {
    if (in_list_ || (member_->kinds & kind) == 0) mistyped(is);
  }

  [[noreturn]] bool mistyped(const char* is) const {
    if (in_list_) {
      refuse(std::string("has ") + is + " where each is an object, in the list of its " + levels[depth_].name + "s");
    }
    refuse(std::string("has ") + is + " in \"" + member_->name + "\", which must be " + member_->should_be);
  }

  [[noreturn]] void refuse(const std::string& what) const {
    std::string where = location_.file + ": " + levels[outer_].name + ' ' + std::to_string(location_.number) +
                        " (line " + std::to_string(location_.line) + ", byte " + std::to_string(location_.offset + 1) +
                        ")";
    for (std::size_t i = outer_ + 1; i < depth_; ++i) {
      where.append(", ").append(levels[i].name).append(" ").append(std::to_string(number_[i]));
    }
    refuse_squad(where + ": " + what);
  }

  std::string_view source_;
  const ArticleLocation& location_;
  std::size_t outer_;
  std::size_t depth_;  // open objects whose members count
  bool in_list_;       // is their innermost list open?
  int skipped_ = 0;    // open objects and lists that are skipped
  const Member* member_ = nullptr;
  std::array<unsigned, levels.size()> seen_{};            // members of the open objects
  std::array<std::int64_t, levels.size() + 1> number_{};  // of the open objects in their lists, from 1
  SquadAnswer answer_;
};

}  // namespace

void refuse_squad(const std::string& what) {
  throw Error(
      ExitCode::data,
      what +
          ". A SQuAD file is {\"data\": [{\"title\": …, \"paragraphs\": [{\"context\": …, \"qas\": [{\"id\": …, "
          "\"question\": …, \"is_impossible\": …, \"answers\": [{\"text\": …, \"answer_start\": …}]}]}]}]}, or has on "
          "each line {\"id\": …, \"context\": …, \"question\": …, \"answers\": {\"text\": […], \"answer_start\": "
          "[…]}}.");
}

SquadArticle read_squad_article(std::string_view json_text, const ArticleLocation& location, bool is_paragraph) {
  ArticleEvents events(json_text, location, is_paragraph ? 1 : 0);
  json::sax_parse(json_text.begin(), json_text.end(), &events);
  return std::move(events.article);
}

}  // namespace bert_hpc::prep
