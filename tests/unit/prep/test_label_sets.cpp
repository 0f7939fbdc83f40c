// Sets of label names in the first pass over the text.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/prep/row_table.hpp"
#include "unit/prep/csv_text.hpp"

using namespace bert_hpc::prep;
using bert_hpc::core::Error;
using bert_hpc::test::CsvText;
using Catch::Matchers::ContainsSubstring;
using Names = std::vector<std::string>;

namespace {

/// Rows "text;name,name" for multi_label.
struct Sets : CsvText {
  explicit Sets(const std::string& rows) : CsvText(std::string("text;label\n").append(rows)) {
    config.task.name = "multi_label";
    config.source.delimiter.emplace(1, ';');
    config.source.label_separator.assign(1, ',');
    config.split.stratify = false;
  }
};

/// The names of a row's set.
Names set_of(const RowTable& rows, std::size_t row) {
  Names names;
  for (auto i = rows.set_begins[row]; i < rows.set_begins[row + 1]; ++i) {
    names.push_back(rows.label_names[static_cast<std::size_t>(rows.set_names[static_cast<std::size_t>(i)])]);
  }
  return names;
}

}  // namespace

TEST_CASE("a label is a set of names, in any order, with blanks around them, or of none") {
  const RowTable rows = Sets("x;b,a\nx;\nx; c ,a,\nx;b\n").scan();
  CHECK(rows.label_names == Names{"a", "b", "c"});
  CHECK(rows.label_rows == std::vector<std::int64_t>{2, 2, 1});
  CHECK(set_of(rows, 0) == Names{"b", "a"});
  CHECK(set_of(rows, 1).empty());
  CHECK(set_of(rows, 2) == Names{"c", "a"});
  CHECK(set_of(rows, 3) == Names{"b"});
  for (const RowStatus status : rows.status) CHECK(is_kept(status));
}

TEST_CASE("an empty separator makes the whole column one name") {
  Sets text("x;b,a\nx;c\n");
  text.config.source.label_separator = "";
  CHECK(text.scan().label_names == Names{"b,a", "c"});
}

TEST_CASE("a set may have a column of 0 or 1 for each name") {
  CsvText text("text,toxic,threat\nx,1,0\nx,0,0\nx, 1,true\nx,-1,-1\nx,,1\nx,false,1.5\n");
  text.config.task.name = "multi_label";
  text.config.task.labels = {"toxic", "threat"};
  text.config.source.label.clear();
  text.config.source.label_columns = {"toxic", "threat"};
  text.config.source.label_separator.assign(1, ',');
  text.config.split.stratify = false;
  const RowTable rows = text.scan();
  CHECK(rows.label_names == Names{"toxic", "threat"});
  CHECK(rows.label_rows == std::vector<std::int64_t>{2, 1});
  CHECK(set_of(rows, 0) == Names{"toxic"});
  CHECK(set_of(rows, 1).empty());
  CHECK(set_of(rows, 2) == Names{"toxic", "threat"});
  for (std::size_t row = 3; row < 6; ++row) CHECK(rows.status[row] == RowStatus::unreadable);
  CHECK_THAT(rows.first_rejects[static_cast<std::size_t>(RowStatus::unreadable)],
             ContainsSubstring("row 4, line 5: the row has \"-1\" in \"toxic\", which must be 0 or 1"));
}

TEST_CASE("rows with an unlisted or a repeated name are rejected by that name, and do not count") {
  Sets text("x;b,a\nx;a,d,b\nx;a,b,a\nx;b\n");
  text.config.task.labels = {"b", "a"};
  const RowTable rows = text.scan();
  CHECK(rows.status[1] == RowStatus::unlisted_label);
  CHECK(rows.status[2] == RowStatus::repeated_label);
  CHECK(rows.label_rows == std::vector<std::int64_t>{2, 1});
  CHECK(rows.unlisted_labels == std::map<std::string, std::int64_t>{{"d", 1}});
  CHECK(set_of(rows, 1).empty());
  CHECK(set_of(rows, 2).empty());
  CHECK(set_of(rows, 3) == Names{"b"});
  CHECK_THAT(rows.first_rejects[static_cast<std::size_t>(RowStatus::unlisted_label)],
             ContainsSubstring("row 2, line 3: the label is not in [task] labels (\"d\")"));
  CHECK_THAT(rows.first_rejects[static_cast<std::size_t>(RowStatus::repeated_label)],
             ContainsSubstring("row 3, line 4: the label has a name twice (\"a\")"));
}

TEST_CASE("rare names leave the sets, and rows stay") {
  Sets text("x;b,a\nx;a,c\nx;c\nx;a\nx;d\n");
  text.config.filter.min_rows_per_label = 2;
  RowTable rows = text.scan();
  CHECK(rows.label_names == Names{"a", "c"});
  CHECK(set_of(rows, 0) == Names{"a"});
  CHECK(set_of(rows, 1) == Names{"a", "c"});
  CHECK(set_of(rows, 4).empty());
  CHECK(is_kept(rows.status[4]));
  text.config.filter.most_frequent_labels = 1;
  text.config.task.labels = {"d", "c", "b", "a"};
  rows = text.scan();
  CHECK(rows.label_names == text.config.task.labels);
  CHECK(rows.label_rows == std::vector<std::int64_t>{0, 0, 0, 3});
  CHECK(set_of(rows, 1) == Names{"a"});
}

TEST_CASE("rows that a sample leaves out do not count for their names") {
  std::string lines;
  for (int i = 0; i < 20; ++i) lines.append("x;a,b\nx;b\n");
  Sets text(lines);
  text.config.filter.sample = 10;
  const RowTable rows = text.scan();
  std::vector<std::int64_t> counts(2, 0);
  for (std::size_t row = 0; row < rows.status.size(); ++row) {
    if (!is_kept(rows.status[row])) continue;
    for (const std::string& name : set_of(rows, row)) ++counts[name == "a" ? 0 : 1];
  }
  CHECK(counts[1] == 10);
  CHECK(rows.label_rows == counts);
}

TEST_CASE("data without a name are refused; one name that not all rows have is no mistake") {
  CHECK_THROWS_WITH(Sets("x;\ny;\n").scan(), ContainsSubstring("No label name is left"));
  const Sets one("x;a\nx;\nx;a\n"), all("x;a\nx;a\n");
  const auto mentions = [](const CsvText& text) {
    for (const std::string& warning : warnings(text.scan(), text.config)) {
      if (warning.find("only one class") != std::string::npos) return true;
    }
    return false;
  };
  CHECK_FALSE(mentions(one));
  CHECK(mentions(all));
}
