#include "bert_hpc/core/conll_line.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>

using namespace bert_hpc::core;
using Columns = std::vector<std::string_view>;

namespace {

Columns split(std::string_view line) {
  Columns columns;
  split_conll_line(line, columns);
  return columns;
}

bool is_comment(std::string_view token_line, std::string_view line) {
  return ConllShape(token_line, split(token_line)).is_comment(line, split(line));
}

}  // namespace

TEST_CASE("a line with a tab has its columns between tabs, another between blanks") {
  CHECK(split("New York\tB-LOC") == Columns{"New York", "B-LOC"});
  CHECK(split("New  York B-LOC") == Columns{"New", "York", "B-LOC"});
  CHECK(split("a\t\tO\t") == Columns{"a", "", "O"});
  CHECK(split("  ").empty());
}

TEST_CASE("comments of CoNLL-U, MultiCoNER and GermEval are distinguished from the token #") {
  const std::string conllu = "1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_";
  CHECK(is_comment(conllu, "# sent_id = 3"));
  CHECK(is_comment(conllu, "# text = a\tb"));
  CHECK(is_comment(conllu, "#"));
  CHECK_FALSE(is_comment(conllu, "#\t_\t_\tSYM\t_\t_\t1\tdep\t_\t_"));
  CHECK(is_comment("The _ _ O", "# id s0\tdomain=en"));
  CHECK(is_comment("The _ _ O", "# id s0 en"));
  CHECK(is_comment("The _ _ O", "# a b c"));  // of four columns, without a tag
  CHECK_FALSE(is_comment("The _ _ O", "# _ _ O"));
  CHECK(is_comment("1\tAus\tO\tO", "#\thttp://de.example/Aus [2009-10-17]"));
  CHECK_FALSE(is_comment("a O", "# O"));
  CHECK_FALSE(is_comment("a NN", "# SYM"));
  CHECK_FALSE(is_comment("a O", "b c d"));
  CHECK_FALSE(ConllShape().is_comment("# O", split("# O")));
}
