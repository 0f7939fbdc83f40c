// Tables with a word a row and a column that names the sentence.
#include <algorithm>

#include "bert_hpc/prep/word_rows.hpp"
#include "read_rows.hpp"

using namespace bert_hpc::prep;
using bert_hpc::test::rows;
using bert_hpc::test::Rows;

namespace {

/// Rows with "_" behind each word.
Rows sentences(const std::string& content, const Rows& columns, const std::string& sentence,
               const char* format = "csv") {
  Rows all = rows(content,
                  {.format = find_text_format(format),
                   .list_columns = {"Word", "Tag"},
                   .list_separator = std::string(1, word_end),
                   .list_ends = true,
                   .sentence = sentence},
                  columns, true);
  for (std::string& row : all) std::replace(row.begin(), row.end(), word_end, '_');
  return all;
}

}  // namespace

TEST_CASE("the words of a sentence are one row: its name in the first row, or in all") {
  const Rows expected = {"2:The_guide_|O_B-PER_", "4:Hi_|O_"};
  CHECK(sentences("Sentence #,Word,Tag\nSentence: 1,The,O\n,guide,B-PER\nSentence: 2,Hi,O\n", {"Word", "Tag"},
                  "Sentence #") == expected);
  CHECK(sentences("id,Word,Tag\n7,The,O\n7,guide,B-PER\n8,Hi,O", {"Word", "Tag"}, "id") == expected);
  CHECK(sentences("{\"id\":0,\"Word\":\"The\",\"Tag\":\"O\"}\n{\"id\":0,\"Word\":\"guide\",\"Tag\":\"B-PER\"}\n"
                  "{\"id\":1,\"Word\":\"Hi\",\"Tag\":\"O\"}\n",
                  {"Word", "Tag"}, "id", "jsonl") == Rows{"1:The_guide_|O_B-PER_", "3:Hi_|O_"});
  CHECK(sentences("id,Word,Tag,doc\n1,\"a b\",O, x\n1,[,O,y\n1,\"['c']\",O,y\n", {"Word", "doc"}, "id") ==
        Rows{"2:a b_[_['c']_|x"});
}

TEST_CASE("a word without a tag, or a row that cannot be read, costs its sentence and no other") {
  CHECK(sentences("id,Word,Tag\n1,a,O\n1,b,\n1,c,O\n2,d,O\n3,,O\n4,e,O,x\n5,f,O\n", {"Word", "Tag"}, "id") ==
        Rows{"2:!is a sentence whose line 3 has nothing in \"Tag\"", "5:d_|O_",
             "6:!is a sentence whose line 6 has nothing in \"Word\"",
             "7:!is a sentence whose line 7 has 4 columns, the header 3", "8:f_|O_"});
  CHECK(sentences("id,Word\n1,a\n", {"Word"}, "Sentence").front().starts_with("error: has no column \"Sentence\""));
}
