// Labels, filters and splits of the first pass over the text.
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>
#include <set>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/prep/row_table.hpp"

using namespace bert_hpc::prep;
using bert_hpc::core::Error;
using Catch::Matchers::ContainsSubstring;

namespace {

class Text {
 public:
  explicit Text(const std::string& content) {
    path_ = (std::filesystem::temp_directory_path() / "bert_hpc_table_XXXXXX").string();
    const int descriptor = mkstemp(path_.data());
    REQUIRE(descriptor >= 0);
    close(descriptor);
    std::ofstream(path_, std::ios::binary) << content;
    config.source.format = "csv";
    config.source.files = {path_};
    config.task.name = "classification";
  }
  ~Text() { std::filesystem::remove(path_); }
  RowTable scan() const { return scan_rows(config); }

  PrepConfig config;

 private:
  std::string path_;
};

/// `count` rows of each label, interleaved.
std::string table(const std::vector<std::pair<std::string, int>>& labels) {
  std::string text = "text,label\n";
  bool more = true;
  for (int round = 0; more; ++round) {
    more = false;
    for (const auto& [label, count] : labels) {
      if (round >= count) continue;
      more = true;
      text.append("some text,").append(label).append("\n");
    }
  }
  return text;
}

std::vector<std::int64_t> in_split(const RowTable& rows, RowStatus split, std::int32_t label) {
  std::vector<std::int64_t> found;
  for (std::size_t i = 0; i < rows.status.size(); ++i) {
    if (rows.status[i] == split && rows.classes[i] == label) found.push_back(static_cast<std::int64_t>(i));
  }
  return found;
}

}  // namespace

TEST_CASE("splits keep each label's share, exactly, and depend on the seed alone") {
  Text text(table({{"b", 1000}, {"a", 100}, {"c", 3}}));
  const RowTable rows = text.scan();
  CHECK(rows.label_names == std::vector<std::string>{"a", "b", "c"});
  CHECK(rows.label_rows == std::vector<std::int64_t>{100, 1000, 3});
  CHECK(in_split(rows, RowStatus::train, 1).size() == 800);
  CHECK(in_split(rows, RowStatus::validation, 1).size() == 100);
  CHECK(in_split(rows, RowStatus::test, 1).size() == 100);
  CHECK(in_split(rows, RowStatus::train, 0).size() == 80);
  CHECK(in_split(rows, RowStatus::test, 0).size() == 10);
  CHECK(in_split(rows, RowStatus::train, 2).size() == 2);
  CHECK(text.scan().status == rows.status);
  text.config.split.seed = 2;
  const RowTable other = text.scan();
  CHECK(other.status != rows.status);
  CHECK(other.counts() == rows.counts());
}

TEST_CASE("a split of fraction zero stays empty, whatever the rounding") {
  for (int count = 1; count < 40; ++count) {
    Text text(table({{"a", count}}));
    text.config.split = {.train = 0.5, .validation = 0.5, .test = 0};
    CHECK(text.scan().counts()[2] == 0);
    text.config.split = {.train = 0, .validation = 1, .test = 2};
    CHECK(text.scan().counts()[0] == 0);
    text.config.split = {.train = 3, .validation = 0, .test = 1};
    CHECK(text.scan().counts()[1] == 0);
  }
}

TEST_CASE("rare labels leave, the most frequent stay, ties by name") {
  Text text(table({{"b", 5}, {"a", 5}, {"d", 7}, {"c", 1}}));
  text.config.filter.min_rows_per_label = 2;
  RowTable rows = text.scan();
  CHECK(rows.label_names == std::vector<std::string>{"a", "b", "d"});
  CHECK(rows.counts()[static_cast<std::size_t>(RowStatus::rare_label)] == 1);
  text.config.filter.most_frequent_labels = 2;
  rows = text.scan();
  CHECK(rows.label_names == std::vector<std::string>{"a", "d"});
  CHECK(rows.counts()[static_cast<std::size_t>(RowStatus::rare_label)] == 6);
  CHECK(in_split(rows, RowStatus::train, 1).size() == 6);  // round(0.8 · 7)
}

TEST_CASE("labels given by the user keep their order, others are left out") {
  Text text(table({{"b", 5}, {"a", 5}, {"d", 7}}));
  text.config.task.labels = {"d", "none", "a"};
  const RowTable rows = text.scan();
  CHECK(rows.label_names == text.config.task.labels);
  CHECK(rows.label_rows == std::vector<std::int64_t>{7, 0, 5});
  CHECK(rows.counts()[static_cast<std::size_t>(RowStatus::unlisted_label)] == 5);
}

TEST_CASE("rows that lack something are left out with a reason, or refused") {
  Text text("text,label\nx,a\n,a\n  ,a\ny,\nz\nlong text,a\n");
  text.config.filter.max_characters = 8;
  const RowTable rows = text.scan();
  using enum RowStatus;
  CHECK(is_kept(rows.status[0]));
  CHECK(std::vector<RowStatus>(rows.status.begin() + 1, rows.status.end()) ==
        std::vector<RowStatus>{empty_text, empty_text, empty_label, missing_column, too_many_characters});
  text.config.filter.drop_missing = false;
  CHECK_THROWS_WITH(text.scan(), ContainsSubstring("row 2, line 3: the text is empty") &&
                                     ContainsSubstring("row 5, line 6: the row has no column \"label\""));
}

TEST_CASE("rows with more columns than the header are left out by that name") {
  Text text("id,text,label\n5,x,a\n6,too,many,cols\n7,z,a\n");
  const RowTable rows = text.scan();
  CHECK(rows.status[1] == RowStatus::extra_columns);
  CHECK(rows.label_names == std::vector<std::string>{"a"});
  SourceRow row;
  row.problem = "has 4 columns, the header 3";
  CHECK(describe_reject(RowStatus::extra_columns, row, text.config) == "the row has 4 columns, the header 3");
  text.config.source.extra_columns = true;
  CHECK(text.scan().label_names == std::vector<std::string>{"a", "many"});
}

TEST_CASE("regression labels are finite numbers") {
  Text text("text,label\nx,6.5\nx,+3\nx,1e2\nx,abc\nx,nan\nx,1e999\nx,7 of 9\nx,-0.5 \n");
  text.config.task.name = "regression";
  const RowTable rows = text.scan();
  std::vector<float> kept;
  for (std::size_t i = 0; i < rows.status.size(); ++i) {
    if (is_kept(rows.status[i])) kept.push_back(rows.values[i]);
  }
  CHECK(kept == std::vector<float>{6.5f, 3, 100, -0.5f});
}

TEST_CASE("nothing left is an error that says why") {
  Text text("text,label\n,a\nx,\n");
  CHECK_THROWS_WITH(text.scan(), ContainsSubstring("1 row: the text is empty") && ContainsSubstring("label is empty"));
}

TEST_CASE("a label may end before a separator, and malformed bytes in it become U+FFFD") {
  Text text("text,label\nx,DESC:manner\nx,DESC:def\nx,\xFF\n");
  text.config.source.label_separator = std::string(1, ':');
  CHECK(text.scan().label_names == std::vector<std::string>{"DESC", "\xEF\xBF\xBD"});
}
