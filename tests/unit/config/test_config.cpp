#include "bert_hpc/config/config.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <limits>
#include <random>
#include <set>

#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/ops/update_rule.hpp"
#include "key_list.hpp"
#include "support/example_input.hpp"
#include "support/parsed_input.hpp"

using namespace bert_hpc::config;
using bert_hpc::core::Error;
using bert_hpc::core::ExitCode;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string example_path = bert_hpc::test::example_input("bert_hpc");

const std::string minimal =
    "[run]\ndirectory = \"out\"\n[model]\npretrained = \"folder\"\n[task]\nname = \"regression\"\n"
    "[data]\ntrain = [\"a.h5\"]\n[optimizer]\nlearning_rate = 1e-5\n[schedule]\nepochs = 3\n";

Config defaults() {
  return default_config(bert_hpc::ops::optimizer_inputs(), bert_hpc::model::known_families());
}

Config parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return bert_hpc::test::parsed_input(text, "in.toml", overrides, defaults());
}

std::string problems(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse(text, overrides);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::input);
    return error.what();
  }
  return "no problem";
}

}  // namespace

TEST_CASE("an override wins over the file's alternative key") {
  const std::string file =
      "[model]\nhidden_size = 64\nnum_hidden_layers = 2\n[task]\nname = \"classification\"\n"
      "[run]\ndirectory = \"r\"\n[data]\ntrain = [\"a.h5\"]\nvalidation = [\"v.h5\"]\n"
      "[optimizer]\nlearning_rate = 1e-4\n[schedule]\nepochs = 3\n[evaluation]\nevery_epochs = 1\n";
  const Config config = parse(file, {"schedule.steps=400", "evaluation.every_steps=7", "model.pretrained=\"other\""});
  CHECK(config.schedule.steps == 400);
  CHECK_FALSE(config.schedule.epochs);
  CHECK(config.evaluation.every_steps == 7);
  CHECK_FALSE(config.evaluation.every_epochs);
  CHECK_FALSE(config.model.hidden_size);
  // The last --set wins, as those of a user behind those of a grid. Two of the file contradict each other.
  CHECK(parse(file, {"schedule.steps=400", "schedule.epochs=1", "model.pretrained=\"o\""}).schedule.epochs == 1.0);
  CHECK_FALSE(parse(file, {"schedule.epochs=1", "schedule.steps=4", "model.pretrained=\"o\""}).schedule.epochs);
  CHECK_THAT(problems(file + "every_steps = 2\n"), ContainsSubstring("keep one of them"));
}

TEST_CASE("sizes beyond those of any model are out of range, and the error states the allowed range") {
  const std::string file = "[run]\ndirectory = \"r\"\n[data]\ntrain = \"a.h5\"\n[task]\nname = \"classification\"\n";
  for (const auto& [key, largest] : {std::pair{"model.vocab_size", std::int64_t{2147483647}},
                                     {"model.hidden_size", 1048576},
                                     {"model.num_hidden_layers", 10000},
                                     {"model.num_attention_heads", 1048576},
                                     {"model.intermediate_size", 1048576},
                                     {"model.max_position_embeddings", 1048576},
                                     {"model.type_vocab_size", 1048576},
                                     {"evaluation.every_epochs", 1 << 30}}) {
    const std::string range = "is out of range: it must be from 1 to " + std::to_string(largest);
    for (const std::int64_t wrong : {largest + 1, std::int64_t{1} << 32, std::numeric_limits<std::int64_t>::max(),
                                     std::int64_t{0}, std::int64_t{-1}}) {
      CHECK_THAT(problems(file, {std::string(key).append("=").append(std::to_string(wrong))}),
                 ContainsSubstring(range));
    }
    CHECK_THAT(problems(file, {std::string(key).append("=").append(std::to_string(largest))}),
               !ContainsSubstring("out of range"));
  }
}

namespace {

std::vector<std::string> problem_keys(const Config& config, int replicas) {
  std::vector<std::string> keys;
  for (const ConfigProblem& problem : validate(config, replicas)) keys.push_back(problem.key);
  return keys;
}

}  // namespace

TEST_CASE("a short input gets defaults that are PyTorch's and Hugging Face's") {
  const Config c = parse(minimal);
  CHECK(c.run.mode == "train");
  CHECK(c.batch.global == 32);
  REQUIRE(c.optimizer.own.size() == 4);
  const double own[] = {0.9, 0.999, 1e-8, 0.01};  // beta1, beta2, epsilon, weight_decay
  for (std::size_t i = 0; i < 4; ++i) CHECK(c.optimizer.own[i].value == own[i]);
  CHECK(c.optimizer.max_gradient_norm == 1.0);
  CHECK(c.precision.compute == "fp32");
  CHECK_FALSE(c.precision.is_given);
  CHECK(parse(minimal, {"precision.compute='fp32'"}).precision.is_given);
  CHECK(c.schedule.name == "linear");
  CHECK(c.log.every_steps == 10);
  CHECK(c.batch.chunks == 0);
  CHECK(!c.evaluation.every_epochs);
  CHECK(parse(minimal, {"data.validation=['v.h5']"}).evaluation.every_epochs == 1);
  CHECK(parse(minimal, {"run.reproducible=true"}).batch.chunks == 8);
  CHECK(parse(minimal, {"run.reproducible=true", "batch.global=6"}).batch.chunks == 4);
  CHECK(parse(minimal, {"task.name='masked_lm'"}).task.number("mask_probability") == 0.15);
  CHECK(parse(minimal, {}).task.is_on("standardize"));
  CHECK(parse(minimal, {"task.standardize=false"}).task.switches.at("standardize") == false);
  CHECK(!parse(minimal, {"task.name='classification'"}).task.switches["standardize"]);
  CHECK(!parse(minimal, {"run.mode='evaluate'", "data.test=['t.h5']"}).task.switches["standardize"]);
}

TEST_CASE("every precision is known, and the error for another one lists them") {
  for (const std::string name : {"fp32", "tf32", "bf16", "fp16", "fp8"}) {
    const Config c = parse(minimal, {"precision.compute='" + name + "'"});
    CHECK(c.precision.compute == name);
    CHECK(parse(to_toml(c)).precision.compute == name);
  }
  CHECK(parse(minimal, {"precision.compute='int8'", "run.mode='evaluate'", "data.test=['t.h5']"}).precision.compute ==
        "int8");
  CHECK_THAT(problems(minimal, {"precision.compute='int8'"}), ContainsSubstring("is for models that are applied"));
  CHECK_THAT(problems(minimal, {"precision.compute='tf16'"}), ContainsSubstring("\"tf32\""));
}

TEST_CASE("the resolved input reads back to the same") {
  std::vector<std::string> texts{minimal};
  for (const auto& file : std::filesystem::directory_iterator(std::filesystem::path(example_path).parent_path())) {
    if (file.path().extension() != ".toml") continue;
    const std::string text = read_input_text(file.path());
    if (text.find("\n[run]") != std::string::npos) texts.push_back(text);  // others are of other programs
  }
  CHECK(texts.size() > 10);
  for (const std::string& text : texts) {
    const std::string once = to_toml(parse(text));
    INFO(once);
    CHECK(to_toml(parse(once)) == once);
  }
  Config everything = parse(minimal, {"schedule.name='polynomial'"});
  everything.model.own_numbers["layer_norm_eps"] = 1e-12;
  everything.run.directory = "a \"b\" \\c\n";
  const std::string text = to_toml(everything);
  CHECK(to_toml(parse(text)) == text);
  CHECK(parse(text).run.directory == everything.run.directory);
  CHECK_THAT(text, ContainsSubstring("layer_norm_eps = 1e-12\n"));
}

TEST_CASE("all violated rules that span keys are reported with their locations") {
  const std::string text = problems(
      "[run]\nmode = \"train\"\n[model]\nhidden_size = 100\nnum_attention_heads = 3\n[task]\nname = \"regression\"\n"
      "mask_probability = 0.2\n[batch]\nmicro = 1\nmicro_tokens = 64\n[parallel]\nzero = 0\noffload = "
      "true\n[schedule]\n"
      "steps = 10\nwarmup_steps = 20\npower = 2\n[evaluation]\nbest = \"f1\"\npatience = 2\n[contrast]\nalpha = "
      "2\n"
      "[precision]\ncompute = \"tf32\"\nloss_scale = 8\n");
  for (const char* expected :
       {"in.toml:1:1: [run] directory is missing", "in.toml:3:1: [model] num_hidden_layers is missing",
        "in.toml:5:23: [model] hidden_size = 100 is not a multiple of num_attention_heads = 3",
        "in.toml:8:20: [task] mask_probability belongs to the tasks \"masked_lm\" and \"masked_lm_pairs\"",
        "in.toml:11:16: [batch] micro_tokens, micro", "in.toml:14:11: [parallel] offload moves what zero shards",
        "in.toml:17:16: [schedule] warmup_steps = 20 is more than steps = 10", "in.toml:18:9: [schedule] power belongs",
        "in.toml:20:8: [evaluation] best needs validation data",
        "\"spearman\", \"concordance\", \"accuracy\", \"qwk\" and \"macro_mae\"",
        "in.toml:22:2: unknown table [contrast]", "[precision] loss_scale belongs to compute",
        "in.toml: [data] train is missing", "in.toml: [optimizer] learning_rate is missing"}) {
    CHECK_THAT(text, ContainsSubstring(expected));
  }
}

TEST_CASE("a family without attention needs no heads and takes none") {
  const std::string keys =
      "[run]\ndirectory = \"r\"\n[task]\nname = \"classification\"\n[data]\ntrain = [\"t.h5\"]\n"
      "[optimizer]\nlearning_rate = 1e-3\n[schedule]\nsteps = 1\n[model]\nfamily = \"bilstm\"\n"
      "hidden_size = 10\nnum_hidden_layers = 2\npooling = \"max\"\n";
  CHECK(parse(keys).model.own_words.at("pooling") == "max");
  CHECK_THAT(problems(keys + "num_attention_heads = 2\n"),
             ContainsSubstring("num_attention_heads is not a setting of family = \"bilstm\""));
  CHECK_THAT(problems(keys + "intermediate_size = 20\n"), ContainsSubstring("intermediate_size is not a setting"));
}

TEST_CASE("labels are standardized for a regression alone") {
  for (const std::string task : {"classification", "masked_lm"}) {
    CHECK_THAT(problems(minimal, {"task.name='" + task + "'", "task.standardize=true"}),
               ContainsSubstring("[task] standardize belongs to the task \"regression\""));
  }
}

TEST_CASE("class weights are a word or a list, and the keys of a classification's loss are unset unless given") {
  const std::string classes = "task.name='classification'";
  const Config plain = parse(minimal, {classes});
  CHECK(!plain.task.list("class_weights").has_value());
  CHECK(!plain.task.numbers.at("label_smoothing"));
  CHECK_THAT(to_toml(plain), !ContainsSubstring("class_weights") && !ContainsSubstring("label_smoothing"));
  const Config word = parse(minimal, {classes, "task.class_weights='balanced'"});
  CHECK(word.task.list("class_weights").word == "balanced");
  CHECK_THAT(to_toml(word), ContainsSubstring("class_weights = \"balanced\""));
  const Config list = parse(minimal, {classes, "task.class_weights=[1, 0.5]", "task.label_smoothing=0"});
  CHECK(list.task.list("class_weights").numbers == std::vector<double>{1, 0.5});
  CHECK(list.task.numbers.at("label_smoothing") == 0);
  const std::string again = to_toml(parse(to_toml(list)));
  CHECK(again == to_toml(list));
  const std::pair<std::string, std::string> wrong[] = {{"class_weights='even'", "it must be \"balanced\""},
                                                       {"class_weights=[1, -1]", "it must be at least 0"},
                                                       {"label_smoothing=1", "it must be from 0 to below 1"},
                                                       {"focal_gamma=-0.5", "it must be from 0 to 100"}};
  for (const auto& [key, text] : wrong) {
    CHECK_THAT(problems(minimal, {classes, "task." + key}), ContainsSubstring(text));
  }
  CHECK_THAT(problems(minimal, {"task.class_weights=[1, 2]"}),
             ContainsSubstring("[task] class_weights belongs to the task \"classification\""));
}

TEST_CASE("predictions are clipped to two numbers in order, or to the labels of a training") {
  const std::string values = "task.name='regression'";
  const Config list = parse(minimal, {values, "task.clip_predictions=[-1, 9.5]"});
  CHECK(list.task.list("clip_predictions").numbers == std::vector<double>{-1, 9.5});
  CHECK(parse(minimal, {values, "task.clip_predictions='labels'"}).task.list("clip_predictions").word == "labels");
  for (const char* wrong : {"[1]", "[1, 2, 3]", "[9, 1]", "[1, 1]"}) {
    CHECK_THAT(problems(minimal, {values, std::string("task.clip_predictions=") + wrong}),
               ContainsSubstring("[task] clip_predictions must be two numbers, the smaller one first"));
  }
  CHECK_THAT(problems(minimal, {values, "task.clip_predictions='range'"}), ContainsSubstring("it must be \"labels\""));
  CHECK_THAT(problems(minimal, {values, "run.mode='evaluate'", "task.clip_predictions='labels'"}),
             ContainsSubstring("needs training data, which mode \"evaluate\" does not read"));
}

TEST_CASE("a range of predictions replaces standardization and clipping") {
  const std::string values = "task.name='regression'";
  const Config given = parse(minimal, {values, "task.range=[1, 9]"});
  CHECK(given.task.list("range").numbers == std::vector<double>{1, 9});
  CHECK(!given.task.switches.at("standardize"));
  CHECK(parse(minimal, {values, "task.range='labels'"}).task.list("range").word == "labels");
  for (const char* other : {"standardize=true", "standardize=false", "clip_predictions=[1, 9]"}) {
    CHECK_THAT(problems(minimal, {values, "task.range=[1, 9]", std::string("task.") + other}),
               ContainsSubstring("does not go with range: remove one of them."));
  }
  CHECK_THAT(problems(minimal, {values, "task.range=[1, 9]", "task.loss='concordance'"}),
             ContainsSubstring("[task] loss = \"concordance\" is of predictions without a range"));
  for (const char* wrong : {"5", "[1]", "[1, 2, 3]", "[9, 1]", "[1, 1]"}) {
    CHECK_THAT(problems(minimal, {values, std::string("task.range=") + wrong}),
               ContainsSubstring("[task] range must be two numbers, the smaller one first"));
  }
  CHECK_THAT(problems(minimal, {values, "run.mode='evaluate'", "task.range='labels'"}),
             ContainsSubstring("remove it, as config.json of a model that was trained with a range holds it"));
}

TEST_CASE("levels ascend within the range, and metrics of levels need them") {
  const std::string values = "task.name='regression'", validated = "data.validation=['v.h5']";
  CHECK(parse(minimal, {values, "task.levels=[1, 1.5, 3]"}).task.list("levels").numbers.size() == 3);
  for (const char* wrong : {"5", "[1]", "[1, 1]", "[2, 1]"}) {
    CHECK_THAT(problems(minimal, {values, std::string("task.levels=") + wrong}),
               ContainsSubstring("[task] levels must be two or more ascending numbers"));
  }
  CHECK_THAT(problems(minimal, {values, "task.levels=[0, 1, 2]", "task.range=[1, 2]"}),
             ContainsSubstring("[task] levels must lie in [task] range."));
  CHECK_THAT(problems(minimal, {values, "run.mode='predict'", "task.levels='labels'"}),
             ContainsSubstring("the log of the training names them"));
  CHECK_THAT(problems(minimal, {values, validated, "evaluation.best='qwk'"}),
             ContainsSubstring("[evaluation] best = \"qwk\" is a metric of levels: set [task] levels"));
  CHECK(parse(minimal, {values, validated, "evaluation.best='qwk'", "task.levels='labels'"}).evaluation.best == "qwk");
}

TEST_CASE("a loss that several tasks state takes each one's words") {
  const std::string values = "task.name='regression'";
  CHECK(parse(minimal, {values}).task.is("loss", "squared_error"));
  CHECK(parse(minimal, {values, "task.loss='concordance'"}).task.is("loss", "concordance"));
  CHECK_THAT(problems(minimal, {values, "task.loss='listwise'"}),
             ContainsSubstring("[task] loss = \"listwise\" is not for the task \"regression\", which takes "
                               "\"squared_error\" or \"concordance\"."));
  CHECK_THAT(problems(minimal, {values, "task.loss='hinge'"}), ContainsSubstring("it must be"));
  CHECK_THAT(problems(minimal, {"task.name='masked_lm'", "task.loss='listwise'"}),
             ContainsSubstring(
                 "belongs to the tasks \"regression\", \"answer_ranking\", \"embedding\" and \"class_embedding\""));
}

TEST_CASE("the threshold of label sets is a probability") {
  const std::string sets = "task.name='multi_label'";
  CHECK_THAT(to_toml(parse(minimal, {sets})), !ContainsSubstring("threshold"));
  CHECK(parse(minimal, {sets, "task.threshold=0.25"}).task.list("threshold").numbers == std::vector<double>{0.25});
  CHECK_THAT(to_toml(parse(minimal, {sets, "task.threshold=0.25"})), ContainsSubstring("threshold = 0.25\n"));
  CHECK_THAT(problems(minimal, {sets, "task.threshold=[0.3, 0.4]"}), ContainsSubstring("threshold must be one number"));
  CHECK_THAT(problems(minimal, {sets, "task.threshold='search'"}), ContainsSubstring("give [data] validation"));
  for (const char* wrong : {"0", "1", "-0.5"}) {
    CHECK_THAT(problems(minimal, {sets, std::string("task.threshold=") + wrong}),
               ContainsSubstring("it must be above 0 to below 1"));
  }
}

TEST_CASE("a value that is reported as wrong is not reported as missing, too") {
  const std::string text = problems(minimal, {"optimizer.learning_rate=\"high\""});
  CHECK_THAT(text, ContainsSubstring("[optimizer] learning_rate must be a number"));
  CHECK_THAT(text, !ContainsSubstring("missing"));
  CHECK_THAT(problems(minimal, {"batch.global=x"}), !ContainsSubstring("unknown"));
  const std::string broken = problems("[run\n");
  CHECK_THAT(broken, ContainsSubstring("not valid TOML") && !ContainsSubstring("missing"));
}

TEST_CASE("a mistyped or absent key is reported once") {
  const auto count = [](const std::string& text) {
    int problems = 0;
    for (std::size_t at = text.find("in.toml:"); at != std::string::npos; at = text.find("in.toml:", at + 1))
      ++problems;
    return problems;
  };
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = minimal;
    return text.replace(text.find(from), from.size(), to);
  };
  for (const auto& [from, to] : {std::pair{"directory", "directry"},
                                 {"train = ", "trian = "},
                                 {"learning_rate", "learning_rte"},
                                 {"epochs", "epoch"}}) {
    const std::string text = problems(with(from, to));
    INFO(text);
    CHECK(count(text) == 1);
    const std::string name(from);
    CHECK_THAT(text, ContainsSubstring("did you mean \"" + name.substr(0, name.find(' ')) + "\"?"));
  }
  CHECK(count(problems(with("[optimizer]", "[optimiser]"))) == 1);
  // Nor does an error report a key as missing that the mistyped key would replace.
  CHECK(count(problems(with("pretrained", "pretraned"))) == 1);
  CHECK(count(problems(with("epochs = 3", "stps = 9"))) == 1);
  CHECK(count(problems(with("directory = \"out\"\n[model]", "[model]\ndirectory = \"out\""))) == 1);
  const std::string absent = problems(with("directory = \"out\"", ""));
  INFO(absent);
  CHECK((count(absent) == 1 && absent.find("[run] directory is missing") != std::string::npos));
  // Another key is missing all the same.
  const std::string two = problems(with("directory = \"out\"\n[model]", "directry = \"out\"\nmode = \"x\"\n[model]"));
  CHECK_THAT(two, ContainsSubstring("did you mean \"directory\"?") && ContainsSubstring("mode = \"x\" is unknown"));
}

TEST_CASE("rules that need the number of replicas are checked when the number is known") {
  using Keys = std::vector<std::string>;
  Config c = parse(minimal);
  CHECK(problem_keys(c, 0).empty());
  CHECK(problem_keys(c, 32).empty());
  CHECK(problem_keys(c, 33) == Keys{"batch.global"});
  c.run.reproducible = true;
  resolve(c);
  for (const int replicas : {1, 2, 4, 8}) CHECK(problem_keys(c, replicas).empty());
  for (const int replicas : {3, 6, 24}) CHECK(problem_keys(c, replicas) == Keys{"run.reproducible"});
  for (const int replicas : {16, 32}) CHECK(problem_keys(c, replicas) == Keys{"batch.chunks"});
  CHECK(problem_keys(c, 33) == Keys{"batch.global"});
  CHECK_THROWS_AS(require_valid(c, 3), Error);
  CHECK_NOTHROW(require_valid(c, 2));
}

TEST_CASE("the keys of [parallel] and [debug] are read, limited and checked against each other") {
  const Config c = parse(minimal, {"parallel.pipeline=2", "parallel.pipeline_schedule='interleaved'",
                                   "parallel.virtual_stages=2", "parallel.balance=[2, 1.5, 0.5, 2.0]",
                                   "parallel.zero=2", "parallel.offload=true", "debug.check_collectives=true",
                                   "debug.collective_timeout_seconds=2", "debug.parameter_hash_every=100"});
  CHECK(c.parallel.balance == std::vector<double>{2, 1.5, 0.5, 2});
  CHECK((c.parallel.virtual_stages == 2 && c.parallel.pipeline_schedule == "interleaved" && c.parallel.offload));
  CHECK((c.debug.check_collectives && c.debug.collective_timeout_seconds == 2 && c.debug.parameter_hash_every == 100));
  CHECK(to_toml(parse(to_toml(c))) == to_toml(c));
  CHECK_THAT(to_toml(c), ContainsSubstring("balance = [2, 1.5, 0.5, 2]\n"));

  const Config measured = parse(minimal, {"parallel.balance=[1]", "parallel.balance='measured'"});
  CHECK((measured.parallel.balance.empty() && measured.parallel.balance_by == "measured"));
  CHECK_THAT(to_toml(measured), ContainsSubstring("balance = \"measured\"\n"));
  CHECK_THAT(to_toml(parse(minimal, {"parallel.balance=[]"})), ContainsSubstring("balance = \"cost\"\n"));

  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"parallel.pipeline_schedule='interleaved'", "parallel.pipeline=2"},
       "needs several parts of the model on each stage: set virtual_stages = 2, or use \"1f1b\""},
      {{"parallel.virtual_stages=2", "parallel.pipeline=2"}, "belongs to pipeline_schedule = \"interleaved\""},
      {{"parallel.virtual_stages=2", "parallel.pipeline_schedule='interleaved'"}, "needs a pipeline: set pipeline = 2"},
      {{"parallel.balance=[3, 1]"}, "[parallel] balance has 2 numbers, but pipeline = 1 needs 1"},
      {{"parallel.balance=[3, 1]", "parallel.pipeline=2", "parallel.virtual_stages=2",
        "parallel.pipeline_schedule='interleaved'"},
       "[parallel] balance has 2 numbers, but pipeline = 2 times virtual_stages = 2 needs 4"},
      {{"parallel.zero=0", "parallel.offload=true"}, "set zero = 1 or 2, or offload = false"},
      {{"parallel.balance=[3, 0]"},
       "[parallel] balance (entry 2) = 0.0 is out of range: it must be a multiple of 0.5 from 0.5 to 1048576"},
      {{"parallel.balance=[3.3333333333333335, 0.5]"},
       "[parallel] balance (entry 1) = 3.3333333333333335 is out of range: it must be a multiple of 0.5"},
      {{"parallel.balance=[3.5, -0.5]"}, "[parallel] balance (entry 2) = -0.5 is out of range"},
      {{"parallel.balance=[3, nan]"}, "[parallel] balance (entry 2) = nan is out of range"},
      {{"parallel.balance=[3, 'a']"}, "[parallel] balance (entry 2) must be a number"},
      {{"parallel.balance='measurd'"},
       "[parallel] balance = \"measurd\" is unknown: it must be \"cost\" or \"measured\"; did you mean \"measured\"?"},
      {{"parallel.balance=4"}, "[parallel] balance must be a list of numbers, as in [3, 1]"},
      {{"parallel.tensor=-1"}, "[parallel] tensor = -1 is out of range"},
      {{"parallel.zero=3"}, "[parallel] zero = 3 is out of range: it must be from 0 to 2"},
      {{"parallel.pipeline_schedule='1f1bb'"}, "did you mean \"1f1b\"?"},
      {{"run.watchdog_seconds=60", "run.watchdog_limit_seconds=60"}, "must be longer than watchdog_seconds"},
      {{"run.watchdog_seconds=0"}, "or 0 for a run that waits without limit"},
      {{"debug.collective_timeout_seconds=0"}, "[debug] collective_timeout_seconds = 0.0 is out of range"}};
  for (const auto& [overrides, expected] : cases) CHECK_THAT(problems(minimal, overrides), ContainsSubstring(expected));
  // A pipeline of 0 gets the remaining ranks: the number of stages is not known yet.
  CHECK(problems(minimal, {"parallel.balance=[3, 1]", "parallel.pipeline=0", "parallel.data=1"}) == "no problem");
}

TEST_CASE("a mixture has a whole number for each entry of the training data") {
  CHECK(problems(minimal, {"data.train=['a', 'b']", "data.repeat=[2, 1]"}) == "no problem");
  CHECK(parse(minimal, {"data.train=['a', 'b']", "data.repeat=[2, 1]"}).data.repeat == std::vector<double>{2, 1});
  CHECK_THAT(problems(minimal, {"data.train=['a', 'b']", "data.repeat=[2]"}),
             ContainsSubstring("[data] repeat has 1 number, but train has 2 entries: give one for each."));
  for (const char* wrong : {"[1, 0]", "[1, 0.5]", "[1, -1]"}) {
    CHECK_THAT(problems(minimal, {"data.train=['a', 'b']", std::string("data.repeat=") + wrong}),
               ContainsSubstring("[data] repeat"));
  }
  CHECK_THAT(problems(minimal, {"data.repeat=[2]", "run.mode='evaluate'", "data.validation=['v']"}),
             ContainsSubstring("repeat is of a training's epochs, and mode \"evaluate\" reads each shard once"));
}

TEST_CASE("each mode requires only the keys that it needs") {
  const std::string evaluate =
      "[run]\nmode = \"evaluate\"\ndirectory = \"o\"\n[task]\nname = \"regression\"\n[model]\npretrained = \"m\"\n"
      "[data]\ntest = [\"t.h5\"]\n";
  CHECK(problems(evaluate) == "no problem");
  CHECK(problems(evaluate, {"run.mode='predict'"}) == "no problem");
  CHECK(problems(minimal, {"run.mode='evaluate'", "data.validation=['v']"}) == "no problem");
  CHECK_THAT(problems(minimal, {"run.mode='predict'"}),
             ContainsSubstring("mode \"predict\" needs the shards to predict"));
  CHECK_THAT(problems(evaluate, {"run.mode='embedding'"}),
             ContainsSubstring("= \"embedding\" is unknown: it must be \"train\""));
  CHECK_THAT(problems(evaluate, {"run.mode='embed'"}), ContainsSubstring("[task] is not for mode \"embed\""));
  CHECK_THAT(problems(evaluate, {"embed.pooling='mean'"}), ContainsSubstring("[embed] belongs to [run] mode"));
  CHECK_THAT(problems(evaluate, {"run.node_ranks=4"}),
             ContainsSubstring("[run] node_ranks is for estimates of a machine"));
  CHECK_THAT(problems(evaluate, {"predictions.probabilities=true"}),
             ContainsSubstring("probabilities = true is for \"token_classification\", and the task is"));
  const std::string embed =
      "[run]\nmode = \"embed\"\ndirectory = \"o\"\n[model]\npretrained = \"m\"\n[embed]\npooling = \"mean\"\n";
  CHECK(problems(embed, {"data.train=['t.h5']"}) == "no problem");
  CHECK_THAT(problems(embed), ContainsSubstring("train, validation and test are missing"));
  CHECK_THAT(problems(evaluate, {"model.pretrained=''"}), ContainsSubstring("pretrained is empty"));
}

TEST_CASE("a search reads embeddings and nothing else") {
  const std::string search = "[run]\nmode = \"search\"\ndirectory = \"o\"\n[search]\nqueries = [\"q.h5\"]\n";
  CHECK(problems(search) == "no problem");
  CHECK(problems(search, {"search.corpus=['c.h5']", "search.qrels='q.tsv'", "search.top_k=10"}) == "no problem");
  CHECK_THAT(problems(search, {"search.queries=[]"}), ContainsSubstring("[search] queries is missing"));
  CHECK_THAT(problems(search, {"search.corpus=['']"}), ContainsSubstring("[search] corpus has an empty file name"));
  CHECK_THAT(problems(search, {"search.qrels=''"}), ContainsSubstring("[search] qrels is empty"));
  CHECK_THAT(problems(search, {"model.pretrained='m'"}), ContainsSubstring("[model] is not for mode \"search\""));
  CHECK_THAT(problems(search, {"task.name='embedding'"}), ContainsSubstring("[task] is not for mode \"search\""));
  CHECK_THAT(problems(search, {"data.test=['t.h5']"}), ContainsSubstring("[data] is not for mode \"search\""));
  CHECK_THAT(problems(search, {"precision.compute='fp8'"}),
             ContainsSubstring("\"fp8\" is for models: a search compares in fp32"));
  CHECK_THAT(problems(minimal, {"search.top_k=10"}), ContainsSubstring("[search] belongs to [run] mode"));
}

TEST_CASE("the example input runs, shows every key, and every key of it is known") {
  CHECK_NOTHROW(bert_hpc::test::parsed_input(read_input_text(example_path), example_path, {}, defaults()));
  KeyList list;
  Config config = defaults();
  visit_keys(list, config);
  std::set<std::string> shown;
  const std::string text = read_input_text(example_path);
  for (const bert_hpc::test::KeyLine& line : bert_hpc::test::key_lines(example_path)) {
    shown.insert(line.table + '.' + line.key);
    if (!line.comment) continue;
    // As if its "# " were removed: a value of the right type, although it may exclude other keys.
    std::string changed = text;
    changed.erase(changed.find("# " + line.text), 2);
    const std::string result = problems(changed);
    INFO(line.text << ": " << result);
    CHECK(result.find("unknown") == std::string::npos);
    CHECK(result.find(" must be ") == std::string::npos);
    CHECK(result.find("not valid TOML") == std::string::npos);
  }
  for (const std::string& name : list.names) {
    INFO(name);
    CHECK(shown.contains(name));
  }
  CHECK(shown.size() == list.names.size());
}

TEST_CASE("the name of the optimizer decides which keys its table has") {
  using bert_hpc::core::NamedSettings;
  const std::vector<NamedSettings> two = {
      {.name = "first", .settings = {{.key = "beta", .value = 0.5, .limits = {.low = 0, .high = 1}}}},
      {.name = "second", .settings = {{.key = "momentum", .value = 0.25}, {.key = "beta", .value = 2}}}};
  const auto read = [&](const std::vector<std::string>& overrides) {
    return bert_hpc::test::parsed_input(minimal, "in.toml", overrides,
                                        default_config(two, bert_hpc::model::known_families()));
  };
  const auto problem = [&](const std::vector<std::string>& overrides) {
    try {
      read(overrides);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no problem");
  };
  CHECK_THAT(to_toml(read({})), ContainsSubstring("name = \"first\"\nlearning_rate = 1e-05\nbeta = 0.5\ndecay = "));
  const Config second = read({"optimizer.name='second'", "optimizer.beta=3.0"});
  CHECK_THAT(to_toml(second), ContainsSubstring("momentum = 0.25\nbeta = 3.0\ndecay = "));
  CHECK(to_toml(bert_hpc::test::parsed_input(to_toml(second), "in.toml", {},
                                             default_config(two, bert_hpc::model::known_families()))) ==
        to_toml(second));
  CHECK_THAT(problem({"optimizer.momentum=0.1"}), ContainsSubstring("momentum"));
  CHECK_THAT(problem({"optimizer.beta=1.5"}), ContainsSubstring("out of range"));
  CHECK_THAT(problem({"optimizer.name='third'"}), ContainsSubstring("\"first\" or \"second\""));
}

TEST_CASE("input/README.md explains exactly the keys that there are") {
  KeyList list;
  Config config = defaults();
  visit_keys(list, config);
  CHECK(bert_hpc::test::manual_keys("bert_hpc") == std::set<std::string>(list.names.begin(), list.names.end()));
}

TEST_CASE("damaged inputs never crash, and their errors always name a location") {
  const std::string original = read_input_text(example_path);
  std::mt19937 random(7);
  const auto below = [&random](std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(random() % n); };
  const std::vector<std::string> pieces = {"[",
                                           "]",
                                           "[[",
                                           "{",
                                           "}",
                                           "\"",
                                           "'''",
                                           "\"\"\"",
                                           "=",
                                           ".",
                                           "\n",
                                           "#",
                                           "\\u0000",
                                           "nan",
                                           "-inf",
                                           "9223372036854775808",
                                           "1e999",
                                           "\xff",
                                           "\xc3",
                                           "\xed\xa0\x80",
                                           std::string("\0", 1),
                                           "[run]\n",
                                           "0x",
                                           "1979-05-27T07:32:00Z",
                                           ",",
                                           "a.b.c"};
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = original;
    const std::size_t changes = 1 + below(4);
    for (std::size_t i = 0; i < changes; ++i) {
      const std::size_t at = below(text.size());
      switch (below(5)) {
        case 0:
          if (!text.empty()) text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text.insert(at, pieces[below(pieces.size())]);
          break;
        case 2:
          text.erase(at, 1 + below(20));
          break;
        case 3:
          text.insert(at, text.substr(below(text.size()), below(60)));
          break;
        default:
          text.resize(std::max<std::size_t>(at, 1));
          break;
      }
    }
    try {
      parse(text);
    } catch (const Error& error) {
      ++refused;
      const std::string message = error.what();
      REQUIRE(error.code() == ExitCode::input);
      REQUIRE(message.find("in.toml:") != std::string::npos);
      REQUIRE(message.find('\0') == std::string::npos);
      REQUIRE(message.size() < 20000);
    }
  }
  CHECK(refused > 1000);
}

TEST_CASE("damaged overrides never crash, and their errors always name them") {
  const std::string original = "batch.global=64";
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    std::string text = original;
    for (int i = 0; i < 3; ++i) text[random() % text.size()] = static_cast<char>(random() % 256);
    const std::string message = problems(minimal, {text});
    if (message != "no problem") REQUIRE(message.find("--set ") != std::string::npos);
  }
}

TEST_CASE("an input of bert_hpc_prep is recognised, and no other problem is reported") {
  CHECK(problems("[source]\nformat = \"csv\"\n[output]\ndirectory = \"out\"\n") ==
        "in.toml: is an input for bert_hpc_prep (it has the table [source]): run that program with it.");
  CHECK_THAT(problems("[source]\nformat = \"csv\"\n" + minimal), ContainsSubstring("unknown table [source]"));
}
