#include "bert_hpc/config/toml_reader.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>

#include "support/temporary_file.hpp"

using namespace bert_hpc::config;
using bert_hpc::core::Error;
using bert_hpc::core::ExitCode;
using Catch::Matchers::ContainsSubstring;

namespace {

struct Values {
  std::int64_t global = 32;
  double rate = 0.1;
  bool flag = false;
  std::string name = "adamw";
  std::vector<std::string> files;
  std::optional<std::int64_t> steps;
  std::optional<double> ratio;
  std::optional<std::string> word;
  int rank = 8;

  bool operator==(const Values&) const = default;
};

void visit(TomlKeys& toml, Values& v) {
  toml.table("batch").key("global", v.global, positive()).key("flag", v.flag);
  toml.table("optimizer").key("name", v.name, one_of({"adamw", "lamb"}));
  toml.key("learning_rate", v.rate, positive());
  toml.table("data").key("train", v.files);
  toml.table("schedule").key("steps", v.steps, at_least(1)).key("warmup_ratio", v.ratio, from_to_below(0, 1));
  toml.key("word", v.word);
  toml.table("model.lora").key("rank", v.rank, positive());
}

Values read(std::string_view text, const std::vector<std::string>& overrides = {}) {
  TomlReader reader(text, "in.toml", overrides);
  Values values;
  visit(reader, values);
  reader.finish();
  return values;
}

std::string problems(std::string_view text, const std::vector<std::string>& overrides = {}) {
  try {
    read(text, overrides);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::input);
    return error.what();
  }
  return "no problem";
}

}  // namespace

TEST_CASE("values of every type are read and others keep their defaults") {
  const Values v = read(
      "[batch]\nglobal = 1_000\nflag = true\n[optimizer]\nlearning_rate = 1\n[data]\ntrain = ['a', \"b\"]\n"
      "[schedule]\nsteps = 0x10\nwarmup_ratio = 1e-1\n[model.lora]\nrank = 4\n");
  CHECK(v.global == 1000);
  CHECK(v.flag);
  CHECK(v.rate == 1.0);
  CHECK(v.name == "adamw");
  CHECK(v.files == std::vector<std::string>{"a", "b"});
  CHECK(v.steps == 16);
  CHECK(v.ratio == 0.1);
  CHECK(!v.word);
  CHECK(v.rank == 4);
  CHECK(read("") == Values{});
  CHECK(read("[data]\ntrain = 'one'\n").files == std::vector<std::string>{"one"});
  CHECK(read("batch.global = 5\n").global == 5);
}

TEST_CASE("all problems are reported together, in the file's order, with their locations and the right names") {
  const std::string text = problems(
      "seed = 1\n[bacth]\nglobal = 1\n[batch]\ngloball = 3\nflag = \"true\"\n[optimizer]\nname = \"adam\"\nlr = 0.1\n"
      "global = 7\n[model.lora]\nrank = -1\nrnk = 2\n[schedule]\nwarmup_ratio = 1.0\n");
  CHECK_THAT(text, ContainsSubstring("1. in.toml:1:1: the key \"seed\" stands outside any table"));
  CHECK_THAT(text, ContainsSubstring("2. in.toml:2:2: unknown table [bacth]; did you mean [batch]?"));
  CHECK_THAT(text, ContainsSubstring("3. in.toml:5:1: unknown key \"globall\" in [batch]; did you mean \"global\"?"));
  CHECK_THAT(text, ContainsSubstring("4. in.toml:6:8: [batch] flag must be true or false, but is the string \"true\""));
  CHECK_THAT(text, ContainsSubstring("5. in.toml:8:8: [optimizer] name = \"adam\" is unknown: it must be \"adamw\" or "
                                     "\"lamb\"; did you mean \"adamw\"?"));
  CHECK_THAT(text,
             ContainsSubstring("6. in.toml:9:1: unknown key \"lr\" in [optimizer]; did you mean \"learning_rate\"?"));
  CHECK_THAT(text, ContainsSubstring("7. in.toml:10:1: unknown key \"global\" in [optimizer]; it belongs to [batch]"));
  CHECK_THAT(text, ContainsSubstring("8. in.toml:12:8: [model.lora] rank = -1 is out of range"));
  CHECK_THAT(text, ContainsSubstring("9. in.toml:13:1: unknown key \"rnk\" in [model.lora]; did you mean \"rank\"?"));
  CHECK_THAT(text,
             ContainsSubstring("10. in.toml:15:16: [schedule] warmup_ratio = 1.0 is out of range: it must be from 0 "
                               "to below 1"));
}

TEST_CASE("errors for wrong types state the given value and the right form") {
  const auto has = [](const char* text, const char* expected) {
    CHECK_THAT(problems(text), ContainsSubstring(expected));
  };
  has("[batch]\nglobal = '64'\n", "must be a whole number, but is the string \"64\": write it without quotes");
  has("[batch]\nglobal = 1e3\n", "must be a whole number, but is the number 1000.0: write 1000");
  has("[batch]\nglobal = [1]\n", "is a list");
  has("[batch]\nglobal = 1979-05-27\n", "is a date or time");
  has("[batch.global]\nx = 1\n", "[batch] global must be a whole number, but is a table");
  has("[optimizer]\nname = 3\n", "must be a string in quotes, but is the whole number 3");
  has("[optimizer]\nlearning_rate = nan\n", "is out of range: it must be above 0");
  has("[optimizer]\nlearning_rate = inf\n", "is out of range");
  has("[data]\ntrain = ['a', 3]\n", "in.toml:2:15: [data] train (entry 2) must be a string");
  has("[model.lora]\nrank = 4294967297\n", "out of range");
  has("batch = 3\n", "in.toml:1:9: \"batch\" must be a table, headed by [batch]");
  has("[optimizer]\nname = \"adamw8\"\n",
      "= \"adamw8\" is unknown: it must be \"adamw\" or \"lamb\"; did you mean \"adamw\"?");
  has("[data]\ntrain = [\"a\\u0000b\"]\n", "null character");
}

TEST_CASE("syntax errors are located and forgotten quotes recognised") {
  CHECK_THAT(problems("[batch]\nglobal = \n"), ContainsSubstring("in.toml:2:"));
  CHECK_THAT(problems("[optimizer]\nname = adamw # x\n"), ContainsSubstring("Strings need quotes: name = \"adamw\""));
  CHECK_THAT(problems("[batch]\nglobal = 1\nglobal = 2\n"), ContainsSubstring("in.toml:3:"));
  CHECK_THAT(problems("[\n"), ContainsSubstring("in.toml:"));
  CHECK_THAT(problems("x = " + std::string(40, '[') + std::string(40, ']')), ContainsSubstring("nest"));
  CHECK_THAT(problems("[batch]\n# \xff\n"), ContainsSubstring("in.toml:2:"));
}

TEST_CASE("overrides win, in order, and errors name them") {
  CHECK(read("[batch]\nglobal = 1\n", {"batch.global=2", "batch.global = 3"}).global == 3);
  CHECK(read("", {"data.train=[\"x\"]", "schedule.word=\"a=b\""}).word == "a=b");
  CHECK(read("", {"model.lora.rank=2"}).rank == 2);
  const auto has = [](const char* set, const char* expected) {
    CHECK_THAT(problems("", {"batch.global=1", set}), ContainsSubstring("--set ") && ContainsSubstring(expected));
  };
  has("optimizer.name=lamb", "a string needs quotes that the shell does not remove: '\"lamb\"'");
  has("optimizer.name=", "no value");
  has("optimizer.name", "must be a table, a key and a value");
  has("global=3", "must be a table, a key and a value");
  has("batch..global=3", "must be a table, a key and a value");
  has("batch.global=0", "[batch] global = 0 is out of range: it must be at least 1");
  has("batch.globl=3", "did you mean \"global\"?");
  has("btch.global=3", "did you mean [batch]?");
  has("batch.global=1\nflag=true", "more than one value");
  has("batch.global.x=3", "not a table");
}

TEST_CASE("required keys and the caller's own problems have locations") {
  TomlReader reader("[task]\nname = \"x\"\n[out]\n", "in.toml", {});
  std::string name, directory;
  reader.table("task").key("name", name).required();
  reader.table("out").key("directory", directory).required();
  reader.table("gone").key("kind", name, one_of({"x", "y"})).required();
  reader.problem("task.name", "[task] name is odd");
  std::int64_t number = 0;
  reader.table("task").key("name", number);
  reader.problem("task.name", "reported twice");
  CHECK(reader.given("task.name"));
  CHECK(!reader.given("task.names"));
  try {
    reader.finish();
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK_THAT(error.what(), ContainsSubstring("in.toml:3:1: [out] directory is missing: it must be a string"));
    CHECK_THAT(error.what(), ContainsSubstring("in.toml: [gone] kind is missing: it must be \"x\" or \"y\""));
    CHECK_THAT(error.what(), ContainsSubstring("in.toml:2:8: [task] name is odd"));
    CHECK_THAT(error.what(), !ContainsSubstring("reported twice"));
  }
}

TEST_CASE("written values read back unchanged") {
  Values v;
  v.global = std::numeric_limits<std::int64_t>::max();
  v.rate = 0.1 + 0.2;
  v.files = {"a \"quoted\" \\ path", "tab\tnew\nline", "漢字"};
  v.steps = 3;
  v.word = "";
  v.ratio = 5e-324;
  TomlWriter writer;
  visit(writer, v);
  CHECK(read(writer.text()) == v);
  TomlWriter again;
  Values copy = read(writer.text());
  visit(again, copy);
  CHECK(again.text() == writer.text());
  CHECK_THAT(writer.text(), !ContainsSubstring("warmup_steps"));
}

TEST_CASE("hostile text of any depth or size gives a message") {
  const auto repeated = [](const std::string& part, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += part;
    return text;
  };
  const std::vector<std::string> texts = {
      "x = " + repeated("[", 200000),
      "x = " + repeated("{a=", 200000),
      "[" + repeated("a.", 300000) + "b]\n",
      repeated("a.", 300000) + "b = 1\n",
      "x = {" + repeated("'a' . ", 100000) + "b = 1}\n",
      repeated("\"#\".", 1000) + "b = 1\n",
      repeated("[[a]]\n", 50000),
      repeated("k = 1\n", 3),
      std::string("a\0b = 1\n", 8),
      "\xef\xbb\xbf[batch]\nglobal = 0\n",
      repeated("\xf0\x9f", 1000),
  };
  for (const std::string& text : texts) CHECK_THAT(problems(text), ContainsSubstring("in.toml:"));
  // Characters beyond ASCII outside strings, where toml++ 3.3's white space look-up has undefined behaviour.
  CHECK_THAT(problems("[batch]\nglobal = \xc3\xa9\n"),
             ContainsSubstring("in.toml:2:10: not valid TOML: characters beyond"));
  CHECK_THAT(problems("x = \"\"\"a\"\"\"\" \xc3\xa9"), ContainsSubstring("in.toml:1:14:"));
  CHECK_THAT(problems("x = \"\"\"a\\\n \xc3\xa9\"\"\""), ContainsSubstring("a backslash before"));
  CHECK_THAT(problems("", {"optimizer.name=\xc3\xa9"}), ContainsSubstring("a string needs quotes"));
  CHECK(read("\xef\xbb\xbf# \xc3\xa9\n[schedule]\nword = '''\xc3\xa9 \\\n\xc3\xa9'''\n").word ==
        "\xc3\xa9 \\\n\xc3\xa9");
  std::string many;
  for (int i = 0; i < 60000; ++i) many += "[t" + std::to_string(i) + "]\nx = 1\n";
  const std::string message = problems(many);
  CHECK_THAT(message, ContainsSubstring("and more problems"));
  CHECK(message.size() < 20000);
  CHECK(problems("# " + repeated(".", 500) + "\n[data]\ntrain = [\"" + repeated(".", 99) + "\"]\n") == "no problem");
}

TEST_CASE("the error for an unclosed string names the line and column at which it begins") {
  const auto message_of = [](const std::string& text) {
    try {
      TomlReader reader(text, "in.toml", {});
      reader.finish();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string closed = "the string that begins here is not closed: there is no second ";
  CHECK_THAT(message_of("[a]\nx = \"abc\ny = 1\n"), ContainsSubstring("in.toml:2:5: not valid TOML: " + closed +
                                                                      "\" before the end of the line\n     x = \"abc"));
  CHECK_THAT(message_of("[a]\nx = 'abc"), ContainsSubstring("in.toml:2:5: not valid TOML: " + closed + "' before"));
  CHECK_THAT(message_of("[a]\nx = [\"b\", \"c]\n"), ContainsSubstring("in.toml:2:11: not valid TOML: " + closed));
  CHECK_THAT(message_of("[a]\nx = \"C:\\\"\ny = \"d\"\n"), ContainsSubstring("in.toml:2:5: not valid TOML: " + closed));
  CHECK_THAT(message_of("[a]\nx = \"b\\\ny = \"d\"\n"), ContainsSubstring("in.toml:2:5: not valid TOML: " + closed));
  CHECK_THAT(message_of("[a]\n\nx = \"\"\"abc\n\"\n"),
             ContainsSubstring("in.toml:3:5: not valid TOML: " + closed + "\"\"\" before the end of the file"));
  // An error before the string is reported first.
  CHECK_THAT(message_of("[a]\nx = = 1\ny = \"abc\n"), ContainsSubstring("in.toml:2:") && !ContainsSubstring("closed"));
}

TEST_CASE("an input file that cannot be read says why") {
  const auto message = [](const std::string& path) -> std::string {
    try {
      read_input_text(path);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::input);
      return error.what();
    }
    return "no problem";
  };
  CHECK_THAT(message("no/such/file.toml"), ContainsSubstring("No such file"));
  CHECK_THAT(message("."), ContainsSubstring("it is a directory"));
  CHECK_THAT(message("/dev/zero"), ContainsSubstring("larger than 1.0 MiB"));
  using namespace std::string_literals;
  for (const std::string& text : {"\xFF\xFE[\0a\0]\0"s, "\xFE\xFF\0[\0a"s, "[\0a\0]\0"s}) {
    const bert_hpc::test::TemporaryFile utf16(text);
    CHECK_THAT(message(utf16.path()), ContainsSubstring("it is UTF-16; TOML is UTF-8"));
  }
}
