// Tables and plain text as real files bring them, and the messages for files that cannot be right.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/prep/readers/row_reader.hpp"
#include "read_rows.hpp"

using namespace bert_hpc::prep;
using bert_hpc::core::Error;
using bert_hpc::test::rows;
using bert_hpc::test::Rows;
using bert_hpc::test::TemporaryFile;
using Catch::Matchers::ContainsSubstring;

namespace {

const RowFormat csv{.format = find_text_format("csv")}, plain{.format = find_text_format("text")};
const RowFormat tsv{.format = find_text_format("tsv"), .delimiter = '\t', .quotes = false};

/// "text,label\nhello,1\n" by gzip -n.
const std::string gzipped(
    "\x1F\x8B\x08\0\0\0\0\0\x02\x03\x2B\x49\xAD\x28\xD1\xC9\x49\x4C\x4A\xCD\xE1\xCA\x48\xCD\xC9\xC9\xD7\x31\xE4\x02\0"
    "\x0B\xA5\xE0"
    "\x4F\x13\0\0",
    39);

/// The error for a file with this content, without its name.
std::string complaint(const std::string& content, const RowFormat& format, const std::string& column = "text") {
  const TemporaryFile file(content);
  try {
    const auto reader = open_rows(file.path(), format, {column});
    Row row;
    while (reader->next(row)) continue;
  } catch (const Error& error) {
    CHECK(error.code() == bert_hpc::core::ExitCode::data);
    return std::string(error.what()).substr(file.path().size());
  }
  return "";
}

}  // namespace

TEST_CASE("CSV: quotes, doubled quotes, line feeds in fields, BOM, CRLF, no last line end") {
  CHECK(rows("a,b\n1,2\n", csv, {"b", "a"}) == Rows{"2:2|1"});
  CHECK(rows("\xEF\xBB\xBF\"a\",b\r\n\"x \"\"y\"\"\r\n z\",2\r\nu,\"v\"\r\n", csv, {"a", "b"}) ==
        Rows{"2:x \"y\"\r\n z|2", "4:u|v"});
  CHECK(rows("a,b\n\n1,2\n\n\n3,4", csv, {"a", "b"}) == Rows{"3:1|2", "6:3|4"});
  CHECK(rows("a,b\n\"\",\"\"\n,\n", csv, {"a", "b"}) == Rows{"2:|", "3:|"});
  CHECK(rows("a,b\n1\n1,2\n", csv, {"a", "b"}) == Rows{"2:1|-", "3:1|2"});
  CHECK(rows("a,b\nx \"q\" y,\"p\" \r\n", csv, {"a", "b"}) == Rows{"2:x \"q\" y|p "});
}

TEST_CASE("a row with more columns than the header is unreadable, unless the input allows it or has no header") {
  const std::string text = "id,text,label\n5,a,x\n6,too,many,cols\n7,\"b,c\",y\n8,d,z,\n";
  CHECK(rows(text, csv, {"text", "label"}) == Rows{"2:a|x", "3:!", "4:b,c|y", "5:!"});
  {
    const TemporaryFile file(text);
    const auto reader = open_rows(file.path(), csv, {"text"});
    Row row;
    for (const char* problem : {"", "has 4 columns, the header 3", "", "has 4 columns, the header 3"}) {
      REQUIRE(reader->next(row));
      CHECK(row.problem == problem);
      CHECK(row.too_wide == !row.problem.empty());
    }
  }
  RowFormat lenient = csv;
  lenient.extra_columns = true;
  CHECK(rows(text, lenient, {"text", "label"}) == Rows{"2:a|x", "3:too|many", "4:b,c|y", "5:d|z"});
  RowFormat bare = csv;
  bare.header = false;
  CHECK(rows("5,a\n6,b,c,d\n", bare, {"1", "2"}) == Rows{"1:5|a", "2:6|b"});
  RowFormat limited = csv;  // the rest is the last column, so no column is too many
  limited.column_limit = 3;
  CHECK(rows(text, limited, {"label"}) == Rows{"2:x", "3:many,cols", "4:y", "5:z,"});
}

TEST_CASE("TSV: quotes are plain characters unless the input enables them") {
  CHECK(rows("t\tl\n\"open\t1\nit \"was\"\t2\n", tsv, {"t", "l"}) == Rows{"2:\"open|1", "3:it \"was\"|2"});
  RowFormat quoted = tsv;
  quoted.quotes = true;
  CHECK(rows("t\tl\n\"a\tb\"\t1\n", quoted, {"t", "l"}) == Rows{"2:a\tb|1"});
}

TEST_CASE("columns by number, with and without header; the last takes the rest") {
  RowFormat bare = tsv;
  bare.header = false;
  CHECK(rows("a\tb\tc\n", bare, {"3", "1"}) == Rows{"1:c|a"});
  CHECK(rows("2\tx\nu\tv\n", tsv, {"2", "1"}) == Rows{"2:u|u"});  // a name comes before a number
  bare.delimiter = ' ';
  bare.column_limit = 2;
  CHECK(rows("DESC:x How did it \"go ?\nNUM 1\n", bare, {"1", "2"}) == Rows{"1:DESC:x|How did it \"go ?", "2:NUM|1"});
}

TEST_CASE("records longer than a block are read whole") {
  const std::string longest(5'000'000, 'x');
  CHECK(rows("a,b\n\"" + longest + "\n\",1\n2,3\n", csv, {"a", "b"}) == Rows{"2:" + longest + "\n|1", "4:2|3"});
  RowFormat text = plain;
  CHECK(rows(longest + "\nshort", text, {"text"}) == Rows{"1:" + longest, "2:short"});
  std::string many = "a\n";
  Rows expected;
  for (int i = 0; i < 300000; ++i) {  // block boundaries at every byte of a record
    many.append("\"").append(std::to_string(i)).append("\"\"\"\n");
    expected.push_back(std::to_string(i + 2) + ":" + std::to_string(i) + "\"");
  }
  CHECK(rows(many, csv, {"a"}) == expected);
}

TEST_CASE("a paragraph that is too long is one row with a problem, and the next one is read") {
  RowFormat text = plain;
  text.unit = TextUnit::paragraph;
  std::string content;
  const std::string line = std::string(1 << 20, 'x') + '\n';
  for (int i = 0; i < 66; ++i) content += line;
  CHECK(rows(content + "\nnext\n", text, {"text"}) == Rows{"1:!", "68:next"});
}

TEST_CASE("plain text by lines, by paragraphs and by files") {
  RowFormat text = plain;
  CHECK(rows("one\ntwo\r\n\n  \nthree", text, {"text"}) == Rows{"1:one", "2:two", "5:three"});
  text.unit = TextUnit::paragraph;
  CHECK(rows("one\ntwo\n\n\nthree\n", text, {"text"}) == Rows{"1:one\ntwo", "5:three"});
  text.unit = TextUnit::file;
  CHECK(rows("\none\ntwo\n\n\nthree\n", text, {"text"}) == Rows{"2:one\ntwo\n\n\nthree"});
  CHECK(rows("\n \n", text, {"text"}).empty());
}

TEST_CASE("gzip is read by its first bytes: several members, zeros after the last, any size") {
  CHECK(rows(gzipped, csv, {"text", "label"}) == Rows{"2:hello|1"});
  CHECK(rows(gzipped + gzipped + std::string(700, '\0'), csv, {"label"}) == Rows{"2:1", "3:label", "4:1"});
  std::string many;
  Rows expected;
  for (int i = 0; i < 20000; ++i) {  // members end at every byte of the blocks
    many += gzipped;
    expected.push_back(std::to_string(2 * i + 1) + ":text,label");
    expected.push_back(std::to_string(2 * i + 2) + ":hello,1");
  }
  CHECK(rows(many, plain, {"text"}) == expected);
}

TEST_CASE("gzip that is truncated or damaged is an error, never a shorter text") {
  for (std::size_t size = 2; size < gzipped.size(); ++size) {
    INFO(size);
    CHECK_THAT(complaint(gzipped.substr(0, size), csv), ContainsSubstring("the gzip data ends too early"));
  }
  for (const std::size_t offset : {3, 12, 31, 36}) {  // flags, data, checksum, size
    std::string bent = gzipped;
    bent[offset] = static_cast<char>(bent[offset] ^ 0xE1);
    INFO(offset);
    CHECK_THAT(complaint(bent, csv), ContainsSubstring("the gzip data "));
  }
  CHECK_THAT(complaint(gzipped + "more", csv), ContainsSubstring("the gzip data is damaged (incorrect header check)"));
}

TEST_CASE("errors name files of other formats and a remedy") {
  using namespace std::string_literals;
  const auto says = [](const std::string& start, const std::string& words) {
    CHECK_THAT(complaint(start + std::string(100, '\x01'), csv), ContainsSubstring(words));
  };
  const bool reads_parquet = find_text_format("parquet")->lacks.empty();
  says("PAR1\x15", reads_parquet ? "is Parquet: set [source] format = \"parquet\"."
                                 : "is Parquet, and format = \"parquet\" needs Apache Arrow");
  says("PK\x03\x04", "is a zip archive; unpack it");
  says("PK\x03\x04 xl/workbook.xml", "is an Excel workbook (.xlsx); save it as \"CSV UTF-8\"");
  says("PK\x03\x04 [Content_Types].xml word/document.xml", "is a Word document");
  says("PK\x03\x04 mimetypeapplication/vnd.oasis.opendocument.spreadsheetPK",
       "is an OpenDocument spreadsheet (.ods); save it as \"Text CSV\" in UTF-8.");
  says("PK\x03\x04 mimetypeapplication/vnd.oasis.opendocument.text", "is an OpenDocument text");
  says("\xFD\x37zXZ\0"s, "is compressed with xz");
  says("BZh91AY&SY", "is compressed with bzip2");
  CHECK(rows("PAR1,b\nx,y\n", csv, {"PAR1"}) == Rows{"2:x"});
}

TEST_CASE("lines may end in CR alone if the first lines do") {
  CHECK(rows("a,b\r1,2\r\r3,\"x\ry\"\r", csv, {"a", "b"}) == Rows{"2:1|2", "4:3|x\ny"});
  CHECK(rows("one\rtwo", plain, {"text"}) == Rows{"1:one", "2:two"});
  CHECK(rows("one\rtwo\nthree\n", plain, {"text"}) == Rows{"1:one\rtwo", "2:three"});
  CHECK(rows("one\r", plain, {"text"}) == Rows{"1:one"});
  std::string wide(65535, 'x');  // where the look at the beginning ends between CR and LF
  CHECK(rows(wide + "\r\ny\rz\r\n", plain, {"text"}) == Rows{"1:" + wide, "2:y\rz"});
}

TEST_CASE("a column whose name is there twice is refused where it is asked for") {
  const std::string table = "text,label,text,x,text\n1,2,3,4,5\n";
  CHECK(
      complaint(table, csv) ==
      ": has the column \"text\" three times, as columns 1, 3 and 5. Rename them in the header, or give the number of "
      "the right one, as in \"1\".");
  CHECK(rows(table, csv, {"3", "label"}) == Rows{"2:3|2"});
  CHECK_THAT(complaint("a,a\n1,2\n", csv, "a"), ContainsSubstring("\"a\" twice, as columns 1 and 2."));
}

TEST_CASE("a line that names the delimiter for Excel is no header, and the file is read without it") {
  const std::string table = "text;label\r\na;1\r\n";
  const TemporaryFile file("sep=;\r\n" + table);
  CHECK_THROWS_WITH(open_rows(file.path(), csv, {"text", "label"}),
                    ContainsSubstring("The first line is a note to Excel and no header: remove it, and set [source] "
                                      "delimiter to what it names."));
  RowFormat semicolons = csv;
  semicolons.delimiter = ';';
  CHECK_THROWS_WITH(open_rows(file.path(), semicolons, {"text", "label"}), ContainsSubstring("a note to Excel"));
  CHECK(rows(table, semicolons, {"text", "label"}) == Rows{"2:a|1"});
}

TEST_CASE("typical wrong files have specific messages") {
  const TemporaryFile empty(""), good("text,label\n1,2\n");
  CHECK_THROWS_WITH(open_rows(empty.path(), csv, {"a"}), ContainsSubstring("is empty"));
  CHECK_THROWS_WITH(open_rows("/nowhere/x.csv", csv, {"a"}), ContainsSubstring("cannot be opened"));
  CHECK_THROWS_WITH(open_rows("/", csv, {"a"}), ContainsSubstring("directory"));
  CHECK_THROWS_WITH(
      open_rows(good.path(), csv, {"lable"}),
      ContainsSubstring("has no column \"lable\" (did you mean \"label\"?). Its columns are \"text\" and \"label\"."));
  CHECK_THROWS_WITH(
      open_rows(good.path(), csv, {"txt", "label", "score"}),
      ContainsSubstring("has no columns \"txt\" (did you mean \"text\"?) and \"score\". Its columns are"));
  CHECK_THROWS_WITH(open_rows(good.path(), csv, {"nosuch"}),
                    ContainsSubstring("has no column \"nosuch\". Its columns are \"text\" and \"label\"."));
  const auto refusal = [](const std::string& content, const RowFormat& format) -> std::string {
    const TemporaryFile file(content);
    try {
      open_rows(file.path(), format, {"words"});
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(refusal("text;label\na;b\n", csv), ContainsSubstring("set [source] delimiter = \";\""));
  CHECK_THAT(refusal("text\tlabel\na\tb\n", csv),
             ContainsSubstring("set [source] format = \"tsv\"") && !ContainsSubstring("header = false"));
  CHECK_THAT(refusal("text,label\na,b\n", tsv), ContainsSubstring("set [source] format = \"csv\""));
  CHECK_THAT(refusal("text,label\na,b\n", csv), !ContainsSubstring("[source]"));
  RowFormat semicolons = csv;
  semicolons.delimiter = ';';
  CHECK_THAT(refusal("text,label\na,b\n", semicolons), ContainsSubstring("remove [source] delimiter"));
  CHECK_THAT(refusal("a film that I liked\tgood\n", csv),
             ContainsSubstring("format = \"tsv\"") && ContainsSubstring("header = false"));
  CHECK_THAT(refusal("fine,1\n", csv), ContainsSubstring("header = false") && !ContainsSubstring("format"));
  RowFormat bare = csv;
  bare.header = false;
  CHECK_THROWS_WITH(open_rows(good.path(), bare, {"text"}), ContainsSubstring("number"));
}
