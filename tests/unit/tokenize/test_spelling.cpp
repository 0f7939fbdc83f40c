// Spellings that readers take for one name have one key; other names keep their own.
#include <catch2/catch_test_macros.hpp>

#include "bert_hpc/tokenize/spelling.hpp"

using bert_hpc::tokenize::spelling_key;

TEST_CASE("case, composition, invisible characters and blanks do not change a name's key") {
  CHECK(spelling_key("Positive") == "positive");
  CHECK(spelling_key("cafe\xCC\x81") == spelling_key("CAF\xC3\x89"));  // NFD, NFC
  CHECK(spelling_key("bar\xE2\x80\x8B") == "bar");                     // zero-width space
  CHECK(spelling_key("\xEF\xBB\xBF"
                     "bar") == "bar");          // byte order mark
  CHECK(spelling_key("ba\xC2\xADr") == "bar");  // soft hyphen
  CHECK(spelling_key(" very\t\xC2\xA0good\xE3\x80\x80") == "very good");
  CHECK(spelling_key("STRASSE") == spelling_key("stra\xC3\x9F"
                                                "e"));
}

TEST_CASE("names that differ in letters, accents or punctuation have different keys") {
  CHECK(spelling_key("ano") != spelling_key("a\xC3\xB1o"));
  CHECK(spelling_key("B-PER") != spelling_key("I-PER"));
  CHECK(spelling_key("+1") != spelling_key("-1"));
  CHECK(spelling_key("") == "");
  CHECK(spelling_key("\xE2\x80\x8B") == "");
}

TEST_CASE("bytes that are no UTF-8 count as U+FFFD") {
  CHECK(spelling_key("a\xFF") == "a\xEF\xBF\xBD");
}
