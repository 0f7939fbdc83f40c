#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <set>

#include "../src/config/synonym_tables.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/ops/update_rule.hpp"
#include "bert_hpc/prep/prep_config.hpp"
#include "bert_hpc/prep/read_config.hpp"
#include "support/example_input.hpp"
#include "unit/config/key_list.hpp"

using namespace bert_hpc::prep;
using bert_hpc::core::Error;
using bert_hpc::core::ExitCode;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string good = R"([source]
format = "tsv"
files = ["a.tsv"]
[tokenizer]
train_size = 100
[task]
name = "classification"
[output]
directory = "out"
)";

PrepConfig parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_prep_config(text, "prep.toml", overrides);
}

std::string message(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse(text, overrides);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::input);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("defaults follow the format") {
  const auto tsv = parse(good).row_format();
  CHECK(tsv.delimiter == '\t');
  CHECK_FALSE(tsv.quotes);
  const auto csv = parse(good, {"source.format=\"csv\""}).row_format();
  CHECK(csv.delimiter == ',');
  CHECK(csv.quotes);
  CHECK(parse(good, {"source.quotes=true"}).row_format().quotes);
}

TEST_CASE("a vocabulary that an override gives replaces one that is trained") {
  for (const std::vector<std::string>& more : {std::vector<std::string>(), {"tokenizer.train_size=0"}}) {
    std::vector<std::string> overrides = {"tokenizer.vocabulary=\"bert\""};
    overrides.insert(overrides.end(), more.begin(), more.end());
    const PrepConfig given = parse(good, overrides);
    CHECK(given.tokenizer.vocabulary == "bert");
    CHECK(given.tokenizer.train_size == 0);
  }
}

TEST_CASE("a comma separates the names of sets, and ends no class") {
  const PrepConfig sets = parse(good, {"task.name=\"multi_label\""});
  CHECK(sets.source.label_separator == ",");
  CHECK(sets.row_format().list_columns == std::vector<std::string>{sets.source.label});
  CHECK(sets.row_format().list_separator == ",");
  CHECK(parse(good, {"task.name=\"multi_label\"", "source.label_separator=\"\""}).source.label_separator.empty());
  CHECK(parse(good).source.label_separator.empty());
  CHECK(parse(good).row_format().list_columns.empty());
}

TEST_CASE("columns of 0 or 1 name the labels, and go with nothing that names them otherwise") {
  const std::string sets = "task.name=\"multi_label\"";
  const std::string columns = "source.label_columns=[\"b\", \"a\"]";
  const std::string no_label = "source.label=\"\"";
  const PrepConfig config = parse(good, {sets, columns, no_label});
  CHECK(config.has_labels());
  CHECK(config.columns_of_labels() == std::vector<std::string>{"b", "a"});
  CHECK(config.task.labels == std::vector<std::string>{"b", "a"});
  CHECK(config.label_column().empty());
  CHECK_THAT(message(good, {sets, columns, "source.label=\"x\""}),
             ContainsSubstring("label_columns and label are both given"));
  CHECK_THAT(message(good, {columns, no_label}),
             ContainsSubstring("label_columns is for multi_label and regression, and the task is classification"));
  CHECK_THAT(message(good, {sets, no_label, "source.label_columns=[\"a\", \"a\"]"}),
             ContainsSubstring("names \"a\" twice"));
  CHECK_THAT(message(good, {sets, no_label, "source.label_columns=[\"a \"]"}),
             ContainsSubstring("no blanks around it"));
  CHECK_THAT(message(good, {sets, no_label, "source.label_columns=[\"a,b\"]"}),
             ContainsSubstring("needs a label_separator that is in no name"));
}

TEST_CASE("a list of label columns is for regression and multi_label") {
  const std::string list = "source.label=[\"grammar\", \"overall\"]", regression = "task.name=\"regression\"";
  const PrepConfig config = parse(good, {regression, list});
  CHECK(config.has_value_columns());
  CHECK(config.columns_of_labels() == std::vector<std::string>{"grammar", "overall"});
  CHECK(config.task.labels.empty());
  CHECK(config.label_column().empty());
  CHECK_FALSE(config.stratifies());
  CHECK(parse(resolved_toml(config), {}).columns_of_labels() == config.columns_of_labels());
  CHECK(parse(good, {regression, "source.label_columns=[\"grammar\", \"overall\"]"}).has_value_columns());
  for (const std::string one : {"source.label=[\"grammar\"]", "source.label_columns=[\"grammar\"]"}) {
    const PrepConfig single = parse(good, {regression, one});
    CHECK_FALSE(single.has_value_columns());
    CHECK(single.source.label == "grammar");
    CHECK(single.source.label_columns.empty());
  }
  CHECK(parse(good, {"task.name=\"multi_label\"", list}).task.labels == std::vector<std::string>{"grammar", "overall"});
  CHECK_THAT(message(good, {list}), ContainsSubstring("label names several columns, which is for multi_label and "
                                                      "regression, and the task is classification"));
  CHECK_THAT(message(good, {regression, list, "source.label_columns=[\"a\"]"}),
             ContainsSubstring("label_columns and label are both given"));
  CHECK_THAT(message(good, {regression, list, "split.stratify=true"}),
             ContainsSubstring("= true divides by one label, and [source] label has several columns"));
  CHECK_THAT(message(good, {regression, "source.label=[\"a/b\", \"c\"]"}), ContainsSubstring("without \"/\""));
  CHECK_THAT(message(good, {regression, "source.label=[\"a\", \"a\"]"}), ContainsSubstring("names \"a\" twice"));
  CHECK_THAT(message(good, {regression, "source.label=3"}), ContainsSubstring("list of strings"));
}

TEST_CASE("formats are found by their names") {
  CHECK(find_text_format("SQuAD") == nullptr);
  for (const TextFormat* format : text_formats()) {
    INFO(format->name);
    CHECK(find_text_format(format->name) == format);
    CHECK(format->open != nullptr);
  }
}

TEST_CASE("a sequence has room for a token of each text") {
  CHECK(message(good, {"tokenizer.max_tokens=3"}).empty());
  CHECK_THAT(message(good, {"tokenizer.max_tokens=2"}), ContainsSubstring("must be at least 3: [CLS] a [SEP]."));
  CHECK_THAT(message(good, {"tokenizer.max_tokens=4", "source.text_pair=\"b\""}),
             ContainsSubstring("must be at least 5 for pairs: [CLS] a [SEP] b [SEP]."));
}

TEST_CASE("windows leave no token out") {
  CHECK(message(good, {"tokenizer.max_tokens=6", "tokenizer.doc_stride=3"}).empty());
  CHECK_THAT(message(good, {"tokenizer.max_tokens=5", "tokenizer.doc_stride=3"}),
             ContainsSubstring("must be at least 6 with doc_stride = 3"));
  CHECK(message(good, {"tokenizer.max_tokens=5", "tokenizer.doc_stride=3", "tokenizer.stride=\"step\""}).empty());
  CHECK_THAT(message(good, {"tokenizer.max_tokens=7", "tokenizer.doc_stride=3", "source.text_pair=\"b\""}),
             ContainsSubstring("must be at least 8 with doc_stride = 3"));
  CHECK_THAT(message(good, {"tokenizer.doc_stride=0", "tokenizer.stride=\"step\""}), ContainsSubstring("at least 1"));
  CHECK_THAT(message(good, {"tokenizer.stride=\"step\""}), ContainsSubstring("needs doc_stride"));
  const std::vector<std::string> masked = {"task.name=\"masked_lm\"", "tokenizer.doc_stride=3"};
  CHECK_FALSE(parse(good, masked).packs());
  CHECK_THAT(message(good, {masked[0], masked[1], "task.pack=true"}),
             ContainsSubstring("does not go with [tokenizer] doc_stride"));
}

TEST_CASE("shards name the column of the labels where it has a name") {
  CHECK(parse(good, {"source.label=\"score 1\""}).label_column() == "score 1");
  CHECK(parse(good, {"source.label=\"2\""}).label_column().empty());
  CHECK(parse(good, {"source.label=\"2\"", "source.header=false", "source.text=\"1\""}).label_column().empty());
  CHECK(parse(good, {"task.name=\"masked_lm\""}).label_column().empty());
}

TEST_CASE("splits without a fraction are empty where the input names files or a fraction, and training gets the rest") {
  const auto fractions = [](const std::vector<std::string>& overrides) {
    const SplitConfig split = parse(good, overrides).split;
    return std::vector<double>{split.train, split.validation, split.test};
  };
  using Fractions = std::vector<double>;
  CHECK(fractions({}) == Fractions{0.8, 0.1, 0.1});
  CHECK(fractions({"split.seed=3"}) == Fractions{0.8, 0.1, 0.1});
  CHECK(fractions({"split.train=0.95", "split.validation=0.05"}) == Fractions{0.95, 0.05, 0});
  CHECK(fractions({"split.train=0.75", "split.test=0.25"}) == Fractions{0.75, 0, 0.25});
  CHECK(fractions({"split.train=0.333", "split.validation=0.333", "split.test=0.333"}) ==
        Fractions{0.333, 0.333, 0.333});
  CHECK(fractions({"split.validation=0.25"}) == Fractions{0.75, 0.25, 0});
  CHECK(fractions({"split.validation=0.25", "split.test=0.25"}) == Fractions{0.5, 0.25, 0.25});
  CHECK(fractions({"split.test=0"}) == Fractions{1, 0, 0});
  CHECK(fractions({"split.test=1"}) == Fractions{0, 0, 1});
  CHECK(fractions({"split.validation=0.7", "split.test=0.3"}) == Fractions{0, 0.7, 0.3});
  const std::string validation = "source.validation_files=[\"v.tsv\"]", test = "source.test_files=\"t.tsv\"";
  CHECK(fractions({validation}) == Fractions{1, 0, 0});
  CHECK(fractions({test}) == Fractions{1, 0, 0});
  CHECK(fractions({validation, test}) == Fractions{1, 0, 0});
  CHECK(fractions({test, "split.validation=0.25"}) == Fractions{0.75, 0.25, 0});
  CHECK(fractions({validation, "split.train=0.9", "split.test=0.1"}) == Fractions{0.9, 0, 0.1});
  const PrepConfig written = parse(good, {"split.train=0.95", "split.validation=0.05"});
  CHECK(resolved_toml(parse(resolved_toml(written))) == resolved_toml(written));
}

TEST_CASE("fractions that do not sum to 1 are refused with a proposal") {
  const auto answer = [](const std::vector<std::string>& overrides, const std::string& sum, const std::string& cure) {
    CHECK_THAT(message(good, overrides), ContainsSubstring("fractions sum to " + sum) && ContainsSubstring(cure));
  };
  answer({"split.train=8", "split.validation=1", "split.test=1"}, "10",
         "write train = 0.8, validation = 0.1 and test = 0.1.");
  answer({"split.train=1.5"}, "1.5", "write train = 1.");
  answer({"split.validation=10", "split.test=10"}, "20", "write validation = 0.5 and test = 0.5.");
  answer({"split.train=0.2", "split.validation=0.04", "split.test=0.04"}, "0.28",
         "write train = 0.7143, validation = 0.1429 and test = 0.1429. To use only a part of the rows, write [filter] "
         "sample = 0.28 as well.");
  answer({"split.train=0.5", "filter.sample=0.5"}, "0.5", "they must sum to 1");
  CHECK_FALSE(message(good, {"split.train=-0.5"}).empty());
}

TEST_CASE("samples, groups and strata go with what they are of") {
  CHECK(parse(good).filter.sample == 0);
  CHECK(parse(good, {"filter.sample=5000"}).filter.sample == 5000);
  CHECK_THAT(message(good, {"filter.sample=2.5"}), ContainsSubstring("[filter] sample is a share of the rows"));
  CHECK_THAT(message(good, {"filter.sample=9", "source.files=[]", "source.test_files=\"t.tsv\""}),
             ContainsSubstring("draws from the rows of [source] files"));
  CHECK_THAT(message(good, {"filter.max_rejected=1.5"}), ContainsSubstring("max_rejected"));
  CHECK(parse(good).stratifies());
  CHECK_FALSE(parse(good, {"split.group=\"id\""}).stratifies());
  CHECK_THAT(message(good, {"split.group=\"id\"", "split.stratify=true"}), ContainsSubstring("does not go with group"));
  CHECK_FALSE(parse(good, {"task.name=\"regression\""}).stratifies());
  CHECK(parse(good, {"task.name=\"regression\"", "split.stratify=true"}).stratifies());
  CHECK_FALSE(parse(good, {"task.name=\"multi_label\""}).split.stratify);
  CHECK_THAT(message(good, {"task.name=\"multi_label\"", "split.stratify=true"}),
             ContainsSubstring("[split] stratify = true has no meaning for multi_label"));
  CHECK_THAT(message(good, {"task.name=\"masked_lm\"", "source.format=\"text\"", "split.group=\"id\""}),
             ContainsSubstring("plain text has none"));
  const PrepConfig written = parse(good, {"split.group=\"id\"", "filter.sample=0.25"});
  CHECK(resolved_toml(parse(resolved_toml(written))) == resolved_toml(written));
}

TEST_CASE("filters of pairs and of undecided labels go with what they are of") {
  CHECK(parse(good, {"filter.empty_pairs=true", "source.text_pair=\"reply\""}).filter.empty_pairs);
  CHECK_THAT(message(good, {"filter.empty_pairs=true"}),
             ContainsSubstring("[filter] empty_pairs is for pairs of texts"));
  CHECK(parse(good, {"filter.undecided=true"}).filter.undecided);
  CHECK_THAT(message(good, {"filter.undecided=true", "task.name=\"regression\""}),
             ContainsSubstring("[filter] undecided is for classification, and the task is regression"));
}

TEST_CASE("text without labels goes to the test split alone") {
  const std::string model = "tokenizer.train_size=0", folder = "tokenizer.vocabulary=\"run/model\"";
  const PrepConfig config = parse(good, {"source.label=\"\"", model, folder});
  CHECK_FALSE(config.has_labels());
  CHECK(config.only_tests());
  CHECK(config.split.test == 1);
  CHECK(resolved_toml(parse(resolved_toml(config))) == resolved_toml(config));
  CHECK(message(good, {"source.label=\"\"", model, folder, "source.format=\"text\""}).empty());
  CHECK_THAT(message(good, {"source.label=\"\"", model, folder, "split.test=0"}), ContainsSubstring("above 0"));
  CHECK_THAT(message(good, {"source.label=\"\"", model, folder, "split.test=0.5"}),
             ContainsSubstring("write test = 1") && ContainsSubstring("sample = 0.5"));
  CHECK_THAT(message(good, {"source.label=\"\"", model, folder, "split.train=0.5"}),
             ContainsSubstring("text without labels, for mode predict"));
  CHECK_THAT(message(good, {"source.label=\"\"", model, folder, "source.validation_files=[\"v.tsv\"]"}),
             ContainsSubstring("text without labels, for mode predict"));
  CHECK_THAT(message(good, {"source.label=\"\""}), ContainsSubstring("a prediction needs the model's: set vocabulary"));
  CHECK_THAT(message(good, {"source.label=\"\"", model, folder, "task.labels=[\"a\"]"}),
             ContainsSubstring("their names are the model's"));
}

TEST_CASE("files for the test split need no other split") {
  const PrepConfig config = parse(good, {"source.files=[]", "source.test_files=[\"t.tsv\"]"});
  CHECK(config.only_tests());
  CHECK(config.has_labels());
}

TEST_CASE("all problems are reported at once, with location and nearest name") {
  const std::string text = message(
      "[source]\nformat = \"tsv\"\nfile = [\"a\"]\ndelimiter = \"ab\"\n[filter]\nmax_character = 3\n"
      "[split]\ntrain = \"x\"\n[task]\nname = \"masked\"\n[output]\ndirectory = \"out\"\n");
  CHECK_THAT(text, ContainsSubstring("prep.toml:3:1") && ContainsSubstring("files"));
  CHECK_THAT(text, ContainsSubstring("prep.toml:4:") && ContainsSubstring("delimiter"));
  CHECK_THAT(text, ContainsSubstring("prep.toml:6:1") && ContainsSubstring("max_characters"));
  CHECK_THAT(text, ContainsSubstring("prep.toml:8:") && ContainsSubstring("masked_lm"));
  CHECK_THAT(text, ContainsSubstring("train_size"));
}

TEST_CASE("an input of bert_hpc is recognised, and no other problem is reported") {
  CHECK(message("[run]\ndirectory = \"out\"\n[data]\ntrain = [\"a.h5\"]\n") ==
        "prep.toml: is an input for bert_hpc (it has the table [run]): run that program with it.");
  CHECK_THAT(message("[run]\ndirectory = \"out\"\n" + good), ContainsSubstring("unknown table [run]"));
}

TEST_CASE("keys that contradict each other are refused") {
  CHECK(message(good).empty());
  std::string both = good;
  CHECK_THAT(message(both.insert(both.find("train_size"), "vocabulary = \"v\"\n")), ContainsSubstring("both given"));
  CHECK_THAT(message(good, {"tokenizer.train_size=0"}),
             ContainsSubstring("vocabulary is missing, and so is train_size") && !ContainsSubstring("both"));
  CHECK_THAT(message(good, {"source.format=\"text\""}),
             ContainsSubstring("needs labels, and plain text has none: use csv, tsv, jsonl"));
  CHECK_THAT(message(good, {"source.unit=\"paragraph\""}),
             ContainsSubstring("[source] unit is for format text, and the format is tsv."));
  CHECK_THAT(message(good, {"source.format=\"jsonl\"", "source.quotes=true"}), ContainsSubstring("csv and tsv"));
  CHECK_THAT(message(good, {"source.format=\"squad\"", "source.header=false"}),
             ContainsSubstring("csv and tsv, and the format is squad"));
  CHECK_THAT(message(good, {"source.encoding=\"utf-9\""}),
             ContainsSubstring("[source] encoding = \"utf-9\" is no encoding that this system's iconv knows"));
  CHECK(parse(good, {"source.encoding=\"Shift_JIS\""}).row_format().encoding == "Shift_JIS");
  CHECK(parse(good, {"source.format=\"squad\""}).row_format().format == find_text_format("squad"));
  CHECK_THAT(message(good, {"split.train=0", "split.validation=0", "split.test=0"}), ContainsSubstring("above 0"));
  CHECK_THAT(message(good, {"task.labels=[\"a\",\"a\"]"}), ContainsSubstring("twice"));
  CHECK_THAT(message(good, {"task.pack=true"}), ContainsSubstring("masked_lm"));
  CHECK_THAT(message(good, {"source.format=\"jsonl\"", "source.extra_columns=true"}), ContainsSubstring("csv and tsv"));
  CHECK_THAT(message(good, {"source.header=false", "source.extra_columns=true"}),
             ContainsSubstring("without a header"));
  CHECK(parse(good, {"source.extra_columns=true"}).row_format().extra_columns);
  CHECK_THAT(message(good, {"source.files=[]"}), ContainsSubstring("no file"));
  CHECK_THAT(message(good, {"source.text_pair=\"b\"", "tokenizer.max_tokens=4"}), ContainsSubstring("at least 5"));
  CHECK_THAT(message(good, {"tokenizer.type=\"wordlevel\""}), ContainsSubstring("wordlevel"));
  CHECK_THAT(message(good, {"tokenizer.type=\"unigram\""}), ContainsSubstring("cannot train a Unigram vocabulary"));
}

TEST_CASE("the resolved input reads back to itself") {
  const PrepConfig config =
      parse(good, {"source.delimiter=\";\"", "filter.max_characters=7", "source.text=[\"a\",\"b\"]"});
  const std::string text = resolved_toml(config);
  CHECK(resolved_toml(parse(text)) == text);
  CHECK_THAT(text, ContainsSubstring("max_characters = 7"));
}

TEST_CASE("the example input runs, shows every key, and every key of it is known") {
  const std::string path = bert_hpc::test::example_input("bert_hpc_prep"),
                    text = bert_hpc::config::read_input_text(path);
  const PrepConfig example = read_prep_config(path, {});
  KeyList list;
  PrepConfig config;
  visit_keys(list, config);
  std::set<std::string> shown;
  for (const bert_hpc::test::KeyLine& line : bert_hpc::test::key_lines(path)) {
    shown.insert(line.table + '.' + line.key);
    if (!line.comment) continue;
    // As if its "# " were removed: a value of the right type, although it may exclude other keys.
    std::string changed = text;
    changed.erase(changed.find("# " + line.text), 2);
    const std::string result = message(changed);
    INFO(line.text << ": " << result);
    for (const char* wrong : {"unknown", " must be ", "not valid TOML"}) {
      CHECK(result.find(wrong) == std::string::npos);
    }
  }
  CHECK(shown == std::set<std::string>(list.names.begin(), list.names.end()));
  CHECK(resolved_toml(parse(resolved_toml(example))) == resolved_toml(example));
}

TEST_CASE("input/README.md explains exactly the keys that there are") {
  KeyList list;
  PrepConfig config;
  visit_keys(list, config);
  CHECK(bert_hpc::test::manual_keys("bert_hpc_prep") == std::set<std::string>(list.names.begin(), list.names.end()));
}

TEST_CASE("names of Transformers' arguments lead to prep's keys") {
  const auto leads_to = [](const std::string& given, const std::string& expected) {
    CHECK_THAT(message(good, {given}), ContainsSubstring(expected));
  };
  leads_to("tokenizer.max_length=128", "did you mean \"max_tokens\"?");
  leads_to("source.max_seq_length=128", "use [tokenizer] max_tokens");
  leads_to("source.tokenizer_name=\"x\"",
           "use [tokenizer] vocabulary, a vocabulary file or the path of a Hugging Face folder");
  leads_to("source.text_column=\"x\"", "did you mean \"text\"?");
  leads_to("task.label_column=\"x\"", "use [source] label");
  leads_to("tokenizer.do_lower_case=true", "did you mean \"lowercase\"?");
  leads_to("output.output_dir=\"x\"", "did you mean \"directory\"?");
  leads_to("split.test_size=0.1", "use [split] test, a fraction");
  leads_to("source.max_train_samples=100", "use [filter] sample");
}

TEST_CASE("every synonym leads to a key or table that an input has") {
  using bert_hpc::config::key_synonyms;
  KeyList list;
  bert_hpc::config::Config trainer =
      bert_hpc::config::default_config(bert_hpc::ops::optimizer_inputs(), bert_hpc::model::known_families());
  bert_hpc::config::visit_keys(list, trainer);
  PrepConfig prep;
  visit_keys(list, prep);
  std::set<std::string> known(list.names.begin(), list.names.end());
  for (const std::string& name : list.names) known.insert(name.substr(0, name.rfind('.')));
  for (const char* later : {"model.recompute", "log.profile"}) known.insert(later);
  for (const auto& synonym : key_synonyms) {
    INFO(synonym.name << " → " << synonym.target);
    CHECK(known.contains(synonym.target));
  }
}
