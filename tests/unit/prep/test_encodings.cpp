// Text in encodings other than UTF-8: names, byte order marks, invalid bytes, and characters at the ends of blocks.
#include <catch2/matchers/catch_matchers_string.hpp>

#include "../src/prep/readers/text_decoder.hpp"
#include "read_rows.hpp"

using namespace bert_hpc::prep;
using namespace std::string_literals;
using bert_hpc::test::rows;
using bert_hpc::test::Rows;
using Catch::Matchers::ContainsSubstring;

namespace {

RowFormat table(const std::string& encoding) {
  return {.format = find_text_format("csv"), .encoding = encoding};
}

std::string utf16(const std::u16string& text, bool big) {
  std::string bytes;
  for (const char16_t unit : text) {
    const char low = static_cast<char>(unit & 0xFF), high = static_cast<char>(unit >> 8);
    bytes += big ? high : low;
    bytes += big ? low : high;
  }
  return bytes;
}

}  // namespace

TEST_CASE("Latin-1 is Windows-1252, as in browsers, under all its names") {
  for (const char* name : {"latin-1", "Latin1", "iso-8859-1", "ISO_8859_1", "cp1252", "windows-1252"}) {
    CHECK(rows("a\ncaf\xE9 don\x92t \x80\x35 \x81\n\"\xE9\"\"\"\n", table(name), {"a"}) ==
          Rows{"2:caf\u00e9 don\u2019t \u20ac5 \u0081", "3:\u00e9\""});
  }
}

TEST_CASE("encodings have the names that Python, iconv and browsers give them") {
  CHECK(rows("a\n\x93\xFA\x96{\x87\x40\n", table("shift_jis"), {"a"}) == Rows{"2:\u65e5\u672c\u2460"});
  CHECK(rows("a\n\xC6\xFC\n", table("euc_jp"), {"a"}) == Rows{"2:\u65e5"});
  CHECK(rows("a\n\xC4\xE3\x81\x30\x84\x36\n", table("gb18030"), {"a"}) == Rows{"2:\u4f60\u00a5"});
  CHECK(rows("a\n\xC4\xE3\n", table("GB2312"), {"a"}) == Rows{"2:\u4f60"});
  CHECK(rows("a\n\xCF\xF0\n", table("windows-1251"), {"a"}) == Rows{"2:\u041f\u0440"});
  CHECK(rows("a\n\xF0\n", table("koi8_r"), {"a"}) == Rows{"2:\u041f"});
  for (const char* name :
       {"utf-8", "UTF8", "utf_8_sig", "utf-16", "utf_16_be", "iso8859_15", "big5", "euc_kr", "mac_roman"}) {
    INFO(name);
    CHECK(is_known_encoding(name));
  }
  for (const char* name : {"", "utf-9", "utf-8//IGNORE", "latin", "../x"}) {
    INFO(name);
    CHECK_FALSE(is_known_encoding(name));
  }
}

TEST_CASE("a byte order mark decides, whatever the input says") {
  const std::u16string text = u"a,b\n\u65e5\"x,\U0001F600\r\n";
  const Rows expected = {"2:\u65e5\"x|\U0001F600"};
  for (const char* name : {"utf-8", "latin-1", "utf-16"}) {
    CHECK(rows("\xFF\xFE" + utf16(text, false), table(name), {"a", "b"}) == expected);
    CHECK(rows("\xFE\xFF" + utf16(text, true), table(name), {"a", "b"}) == expected);
    CHECK(rows("\xEF\xBB\xBF"
               "a\n\u65e5\n",
               table(name), {"a"}) == Rows{"2:\u65e5"});
  }
  CHECK(rows(utf16(text, false), table("utf-16le"), {"a", "b"}) == expected);
  CHECK(rows(utf16(text, true), table("utf-16-be"), {"a", "b"}) == expected);
  CHECK(rows("\xFF\xFE\0\0a\0\0\0\n\0\0\0b\0\0\0"s, table("utf-8"), {"a"}) == Rows{"2:b"});
  CHECK(rows(utf16(u"text,label\nx,y\n", false), table("utf-8"), {"text"}) ==
        Rows{"error: is UTF-16 without a byte order mark: set [source] encoding = \"utf-16le\"."});
}

TEST_CASE("bytes that are invalid in the encoding are malformed characters, and what follows is read") {
  CHECK(rows("a\nx\x80y\n\xC4\xE3\xFF\n\xC4", table("gb18030"), {"a"}) == Rows{"2:x\xFFy", "3:\u4f60\xFF", "4:\xFF"});
  CHECK(rows(utf16(u"a\nx\xD800y\n", false), table("utf-16le"), {"a"}) == Rows{"2:x\xFFy"});
}

TEST_CASE("characters of several bytes are read over all block boundaries") {
  std::string text = "a\n";
  Rows expected;
  for (int i = 0; i < 60'000; ++i) {
    const auto size = static_cast<std::size_t>(i % 5);
    text.append(size, 'x').append("\x93\xFA\n");
    expected.push_back(std::to_string(i + 2) + ":" + std::string(size, 'x') + "\u65e5");
  }
  CHECK(rows(text, table("cp932"), {"a"}) == expected);
}

TEST_CASE("every format reads every encoding") {
  const auto read = [](const char* name, const std::string& text, const Rows& columns) {
    const TextFormat* const format = find_text_format(name);
    return rows("\xFF\xFE" + utf16(std::u16string(text.begin(), text.end()), false),
                {.format = format, .delimiter = format->delimiter}, columns);
  };
  CHECK(read("jsonl", "{\"a\":\"x\"}\n", {"a"}) == Rows{"1:x"});
  CHECK(read("text", "x\ny", {"a"}) == Rows{"1:x", "2:y"});
  CHECK(read("conll", "x O\n", {"tags"}).size() == 1);
  CHECK(read("squad", R"([{"id":1,"context":"c","question":"q"}])", {"id"}) == Rows{"1:1"});
  CHECK(read("glue", "sentence\tlabel\nx\t1\n", {"text"}) == Rows{"2:x"});
  CHECK(read("msmarco", "q\tp\tn\n", {"passage"}) == Rows{"1:p", "1:n"});
}
