#include "bert_hpc/core/text.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "bert_hpc/core/find_either.hpp"

using namespace bert_hpc::core;

TEST_CASE("blanks at both ends go") {
  CHECK(trimmed("") == "");
  CHECK(trimmed(" \t\r\n\v\f") == "");
  CHECK(trimmed(" a b\n") == "a b");
  CHECK(trimmed("\xC2\xA0") == "\xC2\xA0");  // a blank of Unicode is no blank of ASCII
}

TEST_CASE("numbers are written for people") {
  CHECK(with_commas(0) == "0");
  CHECK(with_commas(999) == "999");
  CHECK(with_commas(1000) == "1,000");
  CHECK(with_commas(-1234567) == "-1,234,567");
  CHECK(with_commas(-123) == "-123");
  CHECK(with_commas(std::numeric_limits<std::int64_t>::min()) == "-9,223,372,036,854,775,808");
  CHECK(format_bytes(1) == "1 byte");
  CHECK(format_bytes(1023) == "1,023 bytes");
  CHECK(format_bytes(1536) == "1.5 KiB");
  CHECK(format_bytes((1ll << 20) - 1) == "1.0 MiB");
  CHECK(format_bytes(3ll << 29) == "1.5 GiB");
  CHECK(format_metric(999) == "999");
  CHECK(format_metric(999999) == "1.00 M");
  CHECK(format_metric(1234567) == "1.23 M");
  CHECK(format_metric(45.6e9) == "45.6 G");
  CHECK(format_metric(456e12) == "456 T");
  CHECK(format_number(0.69314718) == "0.6931");
  CHECK(format_number(-10330.2) == "-10,330");
  CHECK(format_number(9999.7) == "10,000");
  CHECK(format_number(99.96, 2) == "100");
  CHECK(format_number(1.5e38) == "1.5e+38");
  CHECK(format_number(-std::numeric_limits<double>::quiet_NaN()) == "nan");
  CHECK(counted(1, "rank") == "1 rank");
  CHECK(counted(1200, "entry", "entries") == "1,200 entries");
}

TEST_CASE("durations carry into the next unit and never print 60 seconds") {
  CHECK(format_duration(0) == "0.00 s");
  CHECK(format_duration(0.0042) == "4.2 ms");
  CHECK(format_duration(0.00996) == "0.01 s");
  CHECK(format_duration(0.123) == "0.12 s");
  CHECK(format_duration(7.31) == "7.3 s");
  CHECK(format_duration(9.96) == "10 s");
  CHECK(format_duration(59.6) == "1 min 00 s");
  CHECK(format_duration(125) == "2 min 05 s");
  CHECK(format_duration(3599.7) == "1 h 00 min");
  CHECK(format_duration(11220) == "3 h 07 min");
  CHECK(format_duration(86399) == "1 d 00 h");
  CHECK(format_duration(187200) == "2 d 04 h");
  CHECK(format_duration(59.9 * 86400) == "59 d 22 h");
  CHECK(format_duration(90.4 * 86400) == "90 days");
  CHECK(format_duration(102800000) == "3.3 years");
  CHECK(format_duration(-1) == "?");
  CHECK(format_duration(std::nan("")) == "?");
}

TEST_CASE("edit distance counts a swap of neighbours once") {
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("abc", "abc") == 0);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("bacth", "batch") == 1);
}

TEST_CASE("the nearest name is found by spelling, beginning or initials, and never forced") {
  const std::vector<std::string> names = {"learning_rate", "weight_decay", "beta1", "max_gradient_norm", "epochs"};
  CHECK(nearest_name("learnin_rate", names) == "learning_rate");
  CHECK(nearest_name("Weight-Decay", names) == "weight_decay");
  CHECK(nearest_name("epoch", names) == "epochs");
  CHECK(nearest_name("lr", names) == "learning_rate");
  CHECK(nearest_name("gradient_norm", names) == "max_gradient_norm");
  CHECK(nearest_name("learning", names) == "learning_rate");
  CHECK(nearest_name("zebra", names).empty());
  CHECK(nearest_name("", names).empty());
  CHECK(nearest_name(std::string(100000, 'x'), names).empty());
}

TEST_CASE("lines end as in Python's text mode") {
  using Lines = std::vector<std::string>;
  CHECK(split_lines("a\nb\r\nc\rd") == Lines{"a", "b", "c", "d"});
  CHECK(split_lines("\na\n\n") == Lines{"", "a", ""});
  CHECK(split_lines("").empty());
}

TEST_CASE("lists read as a sentence") {
  CHECK(listed({"a"}, "or") == "\"a\"");
  CHECK(listed({"a", "b", "c"}, "or") == "\"a\", \"b\" or \"c\"");
  CHECK(listed({"1", "2"}, "and", false) == "1 and 2");
  CHECK(ranges_text(std::vector<int>{}).empty());
  CHECK(ranges_text(std::vector{0, 2, 3, 4, 7, 8}) == "0, 2-4, 7, 8");
  CHECK(ranges_text(std::vector{0, 2, 4, 6, 7}, 2) == "0, 2, …");
}

TEST_CASE("untrusted text cannot disturb the terminal") {
  CHECK(printable("plain é 漢") == "plain é 漢");
  CHECK(printable("a\x1b[31m\tb\n") == "a\\x1B[31m\\tb\\n");
  CHECK(printable("\xff\xc3") == "\\xFF\\xC3");
  CHECK(printable("\xed\xa0\x80") == "\\xED\\xA0\\x80");
  CHECK(printable("\xc2\x9b") == "\\xC2\\x9B");
  CHECK(printable("abcdef", 3) == "abc…");
}

TEST_CASE("the next of two characters is found from every position") {
  // Neighbours of the wanted bytes, among them those with a set top bit and zero, follow wanted ones.
  const std::string bytes{'\t',   '\n', '\b', '\v', '\0', '\x01', '\x89', '\x8A',
                          '\xFF', 'a',  'b',  'c',  'd',  'e',    'f',    'g'};
  std::mt19937 random(1);
  int wrong = 0;
  for (std::size_t size = 0; size < 40; ++size) {
    for (int round = 0; round < 50; ++round) {
      std::string text;
      for (std::size_t i = 0; i < size; ++i) text += bytes[random() % bytes.size() / (round % 3 + 1)];
      for (std::size_t at = 0; at <= size; ++at) {
        const std::size_t expected = std::min(text.find_first_of("\t\n", at), size);
        if (find_either(text, at, '\t', '\n') != expected) ++wrong;
      }
    }
  }
  CHECK(wrong == 0);
}
