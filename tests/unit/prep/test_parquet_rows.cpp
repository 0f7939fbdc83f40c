// Rows of Parquet files: the golden files of golden/parquet as pyarrow reads them, damage, and the messages.
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "../src/prep/readers/class_names.hpp"
#include "read_rows.hpp"
#include "support/tests_directory.hpp"

using namespace bert_hpc::prep;
using bert_hpc::core::Error;
using bert_hpc::core::ExitCode;
using bert_hpc::test::rows;
using bert_hpc::test::Rows;
using bert_hpc::test::TemporaryFile;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

const std::string folder = (bert_hpc::test::tests_directory() / "golden/parquet/").string();

bool reads_parquet() {
  return find_text_format("parquet")->lacks.empty();
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

RowFormat parquet(const std::vector<std::string>& lists = {}, const std::string& named = "") {
  return {.format = find_text_format("parquet"), .list_columns = lists, .list_separator = "|", .named_column = named};
}

/// "error: …" of a golden file that is opened for these columns; "" if it opens.
std::string refusal(const std::string& file, const std::vector<std::string>& columns) {
  try {
    open_rows(folder + file, parquet(), columns);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::data);
    return std::string(error.what()).substr((folder + file).size());
  }
  return "";
}

}  // namespace

TEST_CASE("Parquet: each row has the values that pyarrow reads") {
  if (!reads_parquet()) SKIP("this build has no Arrow");
  const json golden = json::parse(content_of(folder + "rows.json"));
  CHECK(golden.size() >= 6);
  for (const auto& [name, file] : golden.items()) {
    INFO(name);
    const Rows columns = file["columns"], lists = file["lists"];
    const std::string named = file["classes"].empty() ? "" : file["classes"].begin().key();
    const auto reader = open_rows(folder + name, parquet(lists, named), columns);
    Row row;
    std::int64_t number = 0;
    for (const Rows expected : file["rows"]) {
      INFO("row " << number + 1);
      REQUIRE(reader->next(row));
      CHECK(row.problem.empty());
      CHECK(row.number == ++number);
      CHECK(row.line == 0);
      Rows found;
      for (const auto& value : row.values) found.emplace_back(value.value_or("none"));
      CHECK(found == expected);
    }
    CHECK_FALSE(reader->next(row));
    CHECK_FALSE(reader->next(row));
  }
}

TEST_CASE("Parquet: columns come in the order in which they are asked for, each any number of times") {
  if (!reads_parquet()) SKIP("this build has no Arrow");
  const std::string content = content_of(folder + "classes.parquet");
  CHECK(rows(content, parquet({}, "label"), {"label", "text", "label"})[1] == "0:Business|text 1|Business");
  CHECK(rows(content, parquet(), {"label"})[6] == "0:-1");  // without names
  CHECK(rows(content, parquet(), {}).size() == 8);
}

TEST_CASE("Parquet: a text in a column of lists is read as in other formats") {
  if (!reads_parquet()) SKIP("this build has no Arrow");
  const std::string content = content_of(folder + "types.parquet");
  CHECK(rows(content, parquet({"text"}), {"text"})[0] == "0:plain text");
  CHECK(rows(content, parquet({"int32"}), {"int32"})[1] == "0:2147483647");
}

TEST_CASE("Parquet: columns that are missing, nested or of other types are refused by name") {
  if (!reads_parquet()) SKIP("this build has no Arrow");
  CHECK(refusal("classes.parquet", {"text", "lable"}) ==
        ": has no column \"lable\" (did you mean \"label\"?). Its columns are \"text\" and \"label\".");
  CHECK_THAT(refusal("types.parquet", {"struct"}),
             ContainsSubstring(": the column \"struct\" is nested: it holds \"text\" and \"start\"."));
  CHECK_THAT(refusal("types.parquet", {"nested"}), ContainsSubstring("\"nested\" holds lists of lists or of structs."));
  CHECK_THAT(refusal("types.parquet", {"day"}), ContainsSubstring("\"day\" holds values of the type Date."));
  CHECK_THAT(refusal("lists.parquet", {"tokens"}), ContainsSubstring("\"tokens\" holds lists."));
}

TEST_CASE("Parquet: files that are truncated, or no Parquet, are refused with what they are") {
  if (!reads_parquet()) SKIP("this build has no Arrow");
  const auto says = [](const std::string& content) {
    const Rows all = rows(content, parquet(), {"text"});
    return all.empty() ? "" : all.back();
  };
  const std::string whole = content_of(folder + "classes.parquet");
  for (std::size_t size = 4; size < whole.size(); size += 1 + size / 8) {
    INFO(size);
    CHECK_THAT(says(whole.substr(0, size)),
               ContainsSubstring("is truncated: Parquet ends with \"PAR1\". Copy it again."));
  }
  CHECK_THAT(says("PAR1PAR1"), ContainsSubstring("is truncated"));
  CHECK_THAT(says(""), ContainsSubstring("is empty."));
  CHECK_THAT(says("text,label\n"), ContainsSubstring("is not Parquet, which begins with \"PAR1\""));
  CHECK_THAT(says("\x1F\x8B" + whole), ContainsSubstring("is compressed as a whole"));
  CHECK_THAT(says("PARE" + whole), ContainsSubstring("is encrypted"));
  CHECK_THAT(says("version https://git-lfs.github.com/spec/v1\n"), ContainsSubstring("is a pointer of Git LFS"));
  CHECK_THROWS_WITH(open_rows("/nowhere/x.parquet", parquet(), {"a"}), ContainsSubstring("cannot be opened"));
  CHECK_THROWS_WITH(open_rows("/usr", parquet(), {"a"}),
                    ContainsSubstring("name the files in it, as \"/usr/*.parquet\""));
  CHECK_THROWS_WITH(open_rows("/dev/null", parquet(), {"a"}), ContainsSubstring("regular files alone"));
}

TEST_CASE("Parquet: a damaged file is refused or, if only unread bytes are damaged, read as it was") {
  if (!reads_parquet()) SKIP("this build has no Arrow");
  const RowFormat format = parquet({"tokens", "ids"});
  const Rows columns = {"tokens", "ids"};
  const std::string whole = content_of(folder + "lists.parquet");
  const Rows expected = rows(whole, format, columns);
  int refused = 0, in_data = 0;
  for (std::size_t i = 0; i < whole.size(); i += 5) {
    INFO(i);
    std::string bent = whole;
    bent[i] = static_cast<char>(bent[i] ^ 0x55);
    const Rows found = rows(bent, format, columns);
    const bool is_refused = !found.empty() && found.back().starts_with("error");
    refused += is_refused ? 1 : 0;
    in_data += is_refused && found.back().find("row group") != std::string::npos ? 1 : 0;
  }
  CHECK(refused > 10);
  CHECK(in_data > 0);
  // A letter of a text that is not compressed: only the page's checksum says that it is another one.
  std::string other = whole;
  other[other.find(std::string("\4\0\0\0last", 8)) + 4] ^= 1;
  CHECK_THAT(rows(other, parquet({"tokens"}), {"tokens"}).back(),
             ContainsSubstring("error: row 6 in row group 2, column \"tokens\": the data is damaged ("));
  // A byte of the only page that is smaller when compressed; the page's checksum covers it.
  std::string bent = whole;
  bent[bent.find("\x28\xB5\x2F\xFD") + 6] ^= 1;
  const std::string error = rows(bent, parquet({"reals"}), {"reals"}).back();
  CHECK_THAT(error, ContainsSubstring("error: row 1 in row group 1, column \"reals\": the data is damaged ("));
}

TEST_CASE("a build without Arrow says how to read Parquet") {
  if (reads_parquet()) SKIP("this build has Arrow");
  CHECK_THROWS_WITH(open_rows(folder + "classes.parquet", parquet(), {"text"}),
                    ContainsSubstring("needs Apache Arrow, which this build does not have. Build with it "
                                      "(jobs/README.md), or convert the files to format = \"jsonl\": python3 -c"));
}

TEST_CASE("names of classes are those of the features of Hugging Face's datasets") {
  const auto names = [](const std::string& feature) {
    return class_names(R"({"info": {"features": {"label": )" + feature + R"(, "text": {"_type": "Value"}}}})", "label");
  };
  const Rows both = {"neg", "pos"};
  CHECK(names(R"({"names": ["neg", "pos"], "_type": "ClassLabel"})") == both);
  CHECK(names(R"({"num_classes": 2, "names": ["neg", "pos"], "id": null, "_type": "ClassLabel"})") == both);
  CHECK(names(R"({"feature": {"names": ["neg", "pos"], "_type": "ClassLabel"}, "_type": "Sequence"})") == both);
  CHECK(names(R"({"feature": {"names": ["neg", "pos"], "_type": "ClassLabel"}, "_type": "List"})") == both);
  CHECK(names(R"([{"names": ["neg", "pos"], "_type": "ClassLabel"}])") == both);
  CHECK(names(R"({"dtype": "int64", "_type": "Value"})").empty());
  CHECK(names(R"({"names": [1, 2], "_type": "ClassLabel"})").empty());
  CHECK(names(R"({"names": "neg", "_type": "ClassLabel"})").empty());
  CHECK(names(R"({"names": ["neg", "pos"]})").empty());
  for (const char* text : {"", "{", "[]", "7", "null", "{\"info\": []}", "{\"info\": {\"features\": 1}}"}) {
    INFO(text);
    CHECK(class_names(text, "label").empty());
  }
  CHECK(class_names(std::string(100'000, '['), "label").empty());
}
