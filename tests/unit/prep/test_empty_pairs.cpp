// Pairs of which one text is empty.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/prep/row_table.hpp"
#include "unit/prep/csv_text.hpp"

using namespace bert_hpc::prep;
using bert_hpc::test::CsvText;
using Catch::Matchers::ContainsSubstring;

namespace {

struct Pairs : CsvText {
  Pairs(const std::string& format, const std::string& rows) : CsvText(rows) {
    config.source.format = format;
    config.source.text_pair = {"reply"};
    config.filter.max_rejected = 1;
    config.split = {.train = 1, .validation = 0, .test = 0, .stratify = false};
  }
};

const std::string csv = "text,reply,label\nx,y,a\nx,,a\nx,   ,b\n,y,b\n,,b\n";
const std::string jsonl =
    R"({"text": "x", "reply": "y", "label": "a"}
{"text": "x", "reply": "", "label": "a"}
{"text": "x", "reply": null, "label": "b"}
{"text": "", "reply": "y", "label": "b"}
{"text": null, "reply": "\u200b", "label": "b"}
)";

}  // namespace

TEST_CASE("a pair with an empty second text is left out, with a reason that names the text") {
  for (const auto& [format, content] : {std::pair("csv", csv), std::pair("jsonl", jsonl)}) {
    Pairs text(format, content);
    const RowTable rows = text.scan();
    using enum RowStatus;
    CHECK(rows.status == std::vector<RowStatus>{train, empty_pair, empty_pair, empty_text, empty_text});
    SourceRow row;
    CHECK(describe_reject(empty_pair, row, text.config) == "the second text (\"reply\") is empty");
    CHECK(describe_reject(empty_text, row, text.config) == "the first text (\"text\") is empty");
    const std::vector<std::string> found = warnings(rows, text.config);
    REQUIRE_FALSE(found.empty());
    CHECK_THAT(found.front(), ContainsSubstring("2 rows have an empty second text (\"reply\")") &&
                                  ContainsSubstring("[filter] empty_pairs = true"));
    text.config.filter.drop_missing = false;
    CHECK_THROWS_WITH(text.scan(), ContainsSubstring("the second text (\"reply\") is empty"));
  }
}

TEST_CASE("pairs with an empty second text are kept if the input says so") {
  for (const auto& [format, content] : {std::pair("csv", csv), std::pair("jsonl", jsonl)}) {
    Pairs text(format, content);
    text.config.filter.empty_pairs = true;
    using enum RowStatus;
    const RowTable rows = text.scan();
    CHECK(rows.status == std::vector<RowStatus>{train, train, train, empty_text, empty_text});
    CHECK(rows.label_names == std::vector<std::string>{"a", "b"});
  }
}
