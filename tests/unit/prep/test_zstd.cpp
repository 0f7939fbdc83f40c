// Text that is compressed with Zstandard: frames, large windows, and the messages for files that are no text in the
// end.
#include <catch2/matchers/catch_matchers_string.hpp>

#include "../src/prep/readers/decompressor.hpp"
#include "read_rows.hpp"

using namespace bert_hpc::prep;
using namespace std::string_literals;
using bert_hpc::test::rows;
using bert_hpc::test::Rows;
using Catch::Matchers::ContainsSubstring;

namespace {

const RowFormat csv{.format = find_text_format("csv")}, plain{.format = find_text_format("text")};

/// "text,label\nhello,1\n" by zstd 1.5.4, which adds a checksum, and by zstd --no-check from a pipe.
const std::string packed(
    "\x28\xB5\x2F\xFD\x24\x13\x99\0\0text,label\nhello,1\n\x0D\x98\x2D"
    "2",
    32);
const std::string unchecked("\x28\xB5\x2F\xFD\0\x58\x99\0\0text,label\nhello,1\n", 28);
const std::string skippable = "\x5F\x2A\x4D\x18\x03\0\0\0abc"s;

struct Run {
  char letter;
  unsigned count;  ///< at most 128 KiB
};

/// A frame without a checksum, of one block for each run. window_log: from 10 on.
std::string frame(const std::vector<Run>& runs, int window_log = 17) {
  std::string bytes = "\x28\xB5\x2F\xFD\0"s;
  bytes += static_cast<char>((window_log - 10) << 3);
  for (const Run& run : runs) {
    const bool is_last = &run == &runs.back();
    const unsigned header = (run.count << 3) | 2 | (is_last ? 1 : 0);
    for (const int shift : {0, 8, 16}) bytes += static_cast<char>(header >> shift & 0xFF);
    bytes += run.letter;
  }
  return bytes;
}

std::string complaint(const std::string& content) {
  const Rows all = rows(content, csv, {"text"});
  return all.empty() || !all.back().starts_with("error") ? "" : all.back();
}

}  // namespace

TEST_CASE("Zstandard is read by its first bytes: several frames, frames to be skipped, any size") {
  if (zstd_version().empty()) SKIP("this build has no libzstd");
  CHECK(rows(packed, csv, {"text", "label"}) == Rows{"2:hello|1"});
  CHECK(rows(unchecked, csv, {"text", "label"}) == Rows{"2:hello|1"});
  CHECK(rows(skippable + packed + skippable + unchecked + skippable, csv, {"label"}) == Rows{"2:1", "3:label", "4:1"});
  std::string many;
  Rows expected;
  for (int i = 0; i < 20000; ++i) {  // frames end at every offset of the blocks
    many += packed;
    expected.push_back(std::to_string(2 * i + 1) + ":text,label");
    expected.push_back(std::to_string(2 * i + 2) + ":hello,1");
  }
  CHECK(rows(many, plain, {"text"}) == expected);
}

TEST_CASE("Zstandard of a few bytes may hold a text of any length, with a window of any size") {
  if (zstd_version().empty()) SKIP("this build has no libzstd");
  for (const int window_log : {17, 27, 28}) {
    INFO(window_log);
    CHECK(rows(frame({{'a', 100'000}, {'\n', 1}, {'b', 131'072}, {'b', 131'072}}, window_log), plain, {"text"}) ==
          Rows{"1:" + std::string(100'000, 'a'), "2:" + std::string(262'144, 'b')});
  }
}

TEST_CASE("Zstandard that is truncated or damaged is an error, never a shorter text") {
  if (zstd_version().empty()) SKIP("this build has no libzstd");
  for (const std::string& text : {packed, unchecked}) {
    for (std::size_t size = 4; size < text.size(); ++size) {
      INFO(size);
      CHECK_THAT(complaint(text.substr(0, size)), ContainsSubstring("the Zstandard data ends too early"));
    }
  }
  for (const std::size_t index : {4, 6, 12, 29}) {  // header, block, text, checksum
    std::string bent = packed;
    bent[index] = static_cast<char>(bent[index] ^ 0x4E);
    INFO(index);
    CHECK_THAT(complaint(bent), ContainsSubstring("the Zstandard data is damaged ("));
  }
  CHECK_THAT(complaint(packed + "more"), ContainsSubstring("the Zstandard data is damaged (Unknown frame descriptor"));
  std::string with_dictionary = unchecked;
  with_dictionary[4] = 1;
  with_dictionary.insert(6, 1, '\x07');
  CHECK_THAT(complaint(with_dictionary), ContainsSubstring("is compressed with a dictionary of Zstandard"));
}

TEST_CASE("errors name Zstandard within another compression, and where this build does not read it") {
  const std::string twice = frame({{'\x28', 1}, {'\xB5', 1}, {'\x2F', 1}, {'\xFD', 1}, {'x', 100}});
  const bool reads = !zstd_version().empty();
  for (const std::string& text : {twice, skippable + twice}) {
    CHECK_THAT(complaint(text),
               ContainsSubstring(reads ? "is Zstandard within another compression; decompress it once."
                                       : "is compressed with Zstandard; decompress it (zstd -d FILE)"));
  }
  CHECK(complaint("\x5F*M\x17" + std::string(100, 'x')) != complaint(twice));
}
