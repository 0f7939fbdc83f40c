// Rows of JSON: lines, lists and documents, values that JSON has not, and the reasons for rows that cannot be read.
#include <catch2/matchers/catch_matchers_string.hpp>

#include "read_rows.hpp"

using namespace bert_hpc::prep;
using bert_hpc::test::last_reason;
using bert_hpc::test::rows;
using bert_hpc::test::Rows;
using bert_hpc::test::TemporaryFile;
using Catch::Matchers::ContainsSubstring;

namespace {

const RowFormat json{.format = find_text_format("jsonl")};
const Rows columns = {"t", "l"};

}  // namespace

TEST_CASE("JSON Lines: numbers as text, null and absent keys, damaged lines") {
  CHECK(rows("{\"t\":\"a\\u00e9\",\"l\":3}\n\n{\"t\":null,\"l\":true}\r\n{\"t\":\"x\"}\n", json, {"t", "l"}) ==
        Rows{"1:a\xC3\xA9|3", "3:|true", "4:x|-"});
  CHECK(rows("{\"t\":\n[1]\n{\"t\":[1]}\n{\"t\":\"\xFF\"}\n", json, {"t"}) ==
        Rows{"1:!", "2:!", "3:!", "4:\xEF\xBF\xBD"});
  const TemporaryFile file("{\"t\":1,\"l\":2}\n{\"text\":\"\xFF\",\"l\":null}\n{\"t\":null,\"l\":2}\n");
  const auto reader = open_rows(file.path(), json, {"t", "l"});
  Row row;
  for (const auto& keys : {Rows{}, Rows{"l", "text"}, Rows{}}) {  // those of the row that lacks one
    REQUIRE(reader->next(row));
    CHECK(row.keys == keys);
    CHECK(row.malformed == !keys.empty());
  }
  CHECK(rows("{\"t\":" + std::string(1'000'000, '[') + "\n", json, {"t"}) == Rows{"1:!"});
}

TEST_CASE("JSON Lines: an array is a list in the column that may hold one, and nowhere else") {
  RowFormat lists = json;
  lists.list_columns = {"l"};
  lists.list_separator = ", ";
  CHECK(rows("{\"l\":[\"a\",\"b c\"]}\n{\"l\":[]}\n{\"l\":\"a, b\"}\n{\"l\":[1]}\n{\"l\":[\"a, b\"]}\n", lists,
             {"l"}) == Rows{"1:a, b c", "2:", "3:a, b", "4:1", "5:!"});
  CHECK(rows("{\"t\":[\"a\"],\"l\":[\"a\"]}\n{\"l\":[[1]]}\n", lists, {"t", "l"}) == Rows{"1:!", "2:!"});
  lists.list_separator = "";
  CHECK(rows("{\"l\":[\"a\"]}\n", lists, {"l"}) == Rows{"1:!"});
}

TEST_CASE("JSON arrays of numbers, vectors of 0 and 1, and lists within strings are label names") {
  RowFormat lists = json;
  lists.list_columns = {"l"};
  lists.list_separator = ",";
  const auto names = [&](const std::string& value) {
    return rows("{\"l\":" + value + "}\n", lists, {"l"}).front().substr(2);
  };
  CHECK(names("[27]") == "27");
  CHECK(names("[8, 20]") == "8,20");
  CHECK(names("[0, 1]") == "0,1");  // two labels
  CHECK(names("[1, 0, 1]") == "0,2");
  CHECK(names("[0, 0, 0]") == "");
  CHECK(names("[0.0, 1.0]") == "1");
  CHECK(names("[true, false]") == "0");
  CHECK(names("[27.0]") == "27");
  CHECK(names("[0.5, 1.0, 0.0]") == "!");
  CHECK(names("[null]") == "!");
  CHECK(names("[{}]") == "!");
  CHECK(names("\"['a', 'b']\"") == "a,b");
}

TEST_CASE("a JSON file may be a list, a document with \"data\", or objects of several lines") {
  const Rows both = {"1:a|x", "1:b|y"};
  CHECK(rows(R"([{"t":"a","l":"x"}, {"t":"b","l":"y"}])", json, columns) == both);
  CHECK(rows(R"({"schema":{"fields":[]},"data":[{"t":"a","l":"x"},{"t":"b","l":"y"}],"n":1})", json, columns) == both);
  CHECK(rows("\xEF\xBB\xBF[\n {\n  \"t\": \"a]\\\"\",\n  \"l\": 1\n },\r\n {\"l\": 2, \"t\": \"b\"}\n]\n\n", json,
             columns) == Rows{"2:a]\"|1", "6:b|2"});
  CHECK(rows("{\n \"t\": \"a\",\n \"l\": \"x\"\n}\n{\n \"t\": \"b\",\n \"l\": \"y\"\n}\n", json, columns) ==
        Rows{"1:a|x", "5:b|y"});
  // An object that has the columns is a row, whatever else it has.
  CHECK(rows("{\"t\":\"a\",\"data\":[{\"t\":1}]}\n{\"data\":[],\"t\":\"b\"}\n", json, {"t"}) == Rows{"1:a", "2:b"});
  CHECK(rows("[]", json, columns).empty());
  CHECK(rows("[{\"t\":\"a\",\"l\":1}, 7, [1], {\"t\":}, {\"t\":\"b\"}]", json, columns) ==
        Rows{"1:a|1", "1:!", "1:!", "1:!", "1:b|-"});
}

TEST_CASE("a JSON file may be one object of rows, of columns, or of a table's parts, as pandas writes them") {
  const Rows both = {"1:a|x", "1:b|y"};
  CHECK(rows(R"({"t":{"0":"a","1":"b"},"l":{"0":"x","1":"y"}})", json, columns) == both);
  CHECK(rows(R"({"0":{"t":"a","l":"x"},"1":{"t":"b","l":"y"}})", json, columns) == both);
  CHECK(rows(R"({"columns":["n","t","l"],"index":[0,1],"data":[[1,"a","x"],[2,"b","y"]]})", json, columns) == both);
  CHECK(rows(R"({"t":["a","b"],"l":["x","y"]})", json, columns) == both);
  // Indented, with other columns, in another order of columns, with values that JSON has not and brackets in strings.
  CHECK(rows("\xEF\xBB\xBF{\n \"l\": {\n  \"7\": NaN,\n  \"3\": 2\n },\n \"n\": {\"7\": {}},\n \"t\": {\n  \"7\": "
             "\"a}\\\",\",\n  "
             "\"3\": null\n }\n}\n",
             json, columns) == Rows{"8:a}\",|", "9:|2"});
  CHECK(rows("{\n\"r 1\": {\"t\": \"a\",\n\"l\": NaN},\n\"r 2\": {\"t\": \"b\"}\n}", json, columns) ==
        Rows{"2:a|", "4:b|-"});
  CHECK(rows(R"({"t":{},"l":{}})", json, columns).empty());
  CHECK(rows(R"({"columns":["t","l"],"data":[["a","x"],["b"],{"t":"c","l":"z"}]})", json, columns) ==
        Rows{"1:a|x", "1:!", "1:c|z"});
}

TEST_CASE("lists of one object are columns unless they can be those of one row") {
  RowFormat lists = json;
  lists.list_columns = columns;
  lists.list_separator = " ";
  CHECK(rows(R"({"t":["a","b"],"l":["x","y"]})", lists, columns) == Rows{"1:a b|x y"});
  CHECK(rows(R"({"t":[["a","b"],["c"]],"l":[["x","y"],["z"]]})", lists, columns) == Rows{"1:a b|x y", "1:c|z"});
  lists.list_columns = {"l"};
  CHECK(rows(R"({"t":["a","b"],"l":[["x","y"],[]]})", lists, columns) == Rows{"1:a|x y", "1:b|"});
  // Rows of their own, whatever they hold.
  CHECK(rows("{\"t\":[\"a\"],\"l\":[\"x\"]}\n{\"t\":\"b\",\"l\":[\"y\"]}\n", lists, columns) == Rows{"1:!", "2:b|y"});
}

TEST_CASE("a JSON table by columns is refused if rows do not agree or a column is missing") {
  const auto refusal = [](const std::string& text) { return rows(text, json, columns).back(); };
  CHECK_THAT(refusal(R"({"t":{"0":"a","1":"b"},"l":{"0":"x"}})"), ContainsSubstring("not all have a row 2"));
  CHECK_THAT(refusal(R"({"t":{"0":"a","1":"b"},"l":{"1":"x","0":"y"}})"),
             ContainsSubstring("row 1 is \"0\" in \"t\", and \"1\" in \"l\""));
  CHECK_THAT(refusal(R"({"t":{"0":"a"},"lab":{"0":"x"}})"), ContainsSubstring("has no column \"l\""));
  CHECK_THAT(refusal(R"({"t":{"0":"a"},"l":{"0":"x"},"t":{"0":"b"}})"), ContainsSubstring("twice"));
}

TEST_CASE("a JSON table by columns of any size is read over all block boundaries") {
  std::string texts, numbers;
  Rows expected;
  for (int i = 0; i < 30'000; ++i) {
    const std::string key = (i > 0 ? "," : "") + ('"' + std::to_string(i)) + "\":";
    const std::string value = std::string(static_cast<std::size_t>(i % 89), 'x') + "]},{";
    texts.append(key).append("\"").append(value).append("\"");
    numbers.append(key).append(std::to_string(i));
    expected.push_back("1:" + value + "|" + std::to_string(i));
  }
  CHECK(rows("{\"t\":{" + texts + "},\"l\":{" + numbers + "}}", json, columns) == expected);
}

TEST_CASE("a damaged JSON list is refused with the position") {
  CHECK(rows("[{\"t\":1}\n {\"t\":2}]", json, {"t"}) ==
        Rows{"1:1", "error: line 2, byte 11: is not JSON: a comma or ] is missing after object 1."});
  CHECK(rows("[{\"t\":1},\n {\"t\":", json, {"t"}) ==
        Rows{"1:1", "error: line 2, byte 12: the file ends within object 2."});
  CHECK(rows("[{\"t\":1}]\n{\"t\":2}", json, {"t"}) ==
        Rows{"1:1", "error: line 2, byte 11: is not JSON: something follows after its last ]."});
  CHECK(rows("{\n\"t\":1}\n}\n", json, {"t"}) ==
        Rows{"1:1", "error: line 3, byte 10: is not JSON: a bracket has no partner."});
}

TEST_CASE("a JSON list of any size is read over all block boundaries") {
  std::string text = "[";
  Rows expected;
  for (int i = 0; i < 50'000; ++i) {
    const std::string value = std::string(static_cast<std::size_t>(i % 89), 'x') + "]},{";
    text.append(i > 0 ? ", " : "").append("{\"t\":\"").append(value).append("\"}");
    expected.push_back("1:" + value);
  }
  CHECK(rows(text + "]", json, {"t"}) == expected);
}

TEST_CASE("NaN and Infinity, as Python writes them, cost no row and are empty") {
  CHECK(rows("{\"t\":\"NaN, \\\"NaN\",\"l\":NaN,\"x\":-Infinity}\n{\"l\":Infinity,\"t\":\"b\"}\n[NaN]\n", json,
             columns) == Rows{"1:NaN, \"NaN|", "2:b|", "3:!"});
  CHECK(rows("[{\"t\":\"a\",\"l\":NaN}]", json, columns) == Rows{"1:a|"});
}

TEST_CASE("the reason names half a surrogate pair, and other faults of JSON") {
  CHECK_THAT(last_reason(R"({"t":"\ud83d\udc96"})"
                         "\n"
                         R"({"t":"\ud83d"})",
                         json, {"t"}),
             ContainsSubstring("2:!is not JSON: it has one half of a surrogate pair"));
  CHECK_THAT(last_reason(R"({"t":"\udc96"})", json, {"t"}), ContainsSubstring("one half of a surrogate pair"));
  CHECK_THAT(last_reason("{\"t\":\"a}\n", json, {"t"}), ContainsSubstring("missing closing quote"));
  CHECK_THAT(last_reason("{'t': 'a'}\n", json, {"t"}), ContainsSubstring("write it with json.dumps()"));
  CHECK(last_reason("[[2], 1]", json, {"t"}) == "1:!is not a JSON object");
  // Values without names, and rows that have none of the names.
  for (const char* other : {R"([["a",1],["b",2]])", R"({"0":{"text":"a"},"1":{"text":"b"}})"}) {
    CHECK_THAT(last_reason(other, json, columns), ContainsSubstring("orient=\"records\""));
  }
}
