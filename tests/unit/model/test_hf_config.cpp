// config.json: files that Transformers writes, missing keys, and files that must be refused.
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <random>

#include "bert_hpc/model/encoder_settings.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "files.hpp"

using namespace bert_hpc;
using model::ModelConfig;
using test::failure_of;

namespace {

test::Failure parse_failure(const std::string& text) {
  return failure_of([&text] { model::parse_hf_config(text, "config.json"); });
}

}  // namespace

TEST_CASE("keys that are absent keep BERT-base's values") {
  const ModelConfig config = model::parse_hf_config("{}", "config.json");
  CHECK(config.vocab_size == 30522);
  CHECK(config.hidden_size == 768);
  CHECK(config.head_dim() == 64);
  CHECK(config.num_labels() == 2);
  CHECK(model::encoder_settings(config).head_dropout() == 0.1);
}

TEST_CASE("a config survives being written and read") {
  ModelConfig config;
  config.vocab_size = 8192;
  config.hidden_size = 128;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.intermediate_size = 512;
  config.max_position_embeddings = 64;
  config.type_vocab_size = 1;
  model::encoder_settings(config).hidden_dropout_prob = 0.25;
  model::encoder_settings(config).attention_probs_dropout_prob = 0.0;
  model::encoder_settings(config).classifier_dropout = 0.5;
  model::encoder_settings(config).layer_norm_eps = 1e-7;
  config.initializer_range = 0.01;
  config.label_names = {"noun.act", "élan \"quoted\"", "x"};
  for (int i = 3; i < 33; ++i) config.label_names.push_back("label " + std::to_string(i));
  config.problem_type = "single_label_classification";
  config.prediction_range = {-0.5, 1e9};
  config.pad_token_id = 3;
  config.cls_token_id = 4;
  const std::string text = model::hf_config_text(config, layers::sequence_head());
  CHECK(text == model::hf_config_text(config, layers::sequence_head()));
  const ModelConfig read = model::parse_hf_config(text, "config.json");
  CHECK(read.vocab_size == 8192);
  CHECK(read.hidden_size == 128);
  CHECK(read.num_hidden_layers == 2);
  CHECK(read.num_attention_heads == 4);
  CHECK(read.intermediate_size == 512);
  CHECK(read.max_position_embeddings == 64);
  CHECK(read.type_vocab_size == 1);
  CHECK(model::encoder_settings(read).hidden_dropout_prob == 0.25);
  CHECK(model::encoder_settings(read).attention_probs_dropout_prob == 0.0);
  CHECK(model::encoder_settings(read).classifier_dropout == 0.5);
  CHECK(model::encoder_settings(read).layer_norm_eps == 1e-7);
  CHECK(read.initializer_range == 0.01);
  CHECK(read.label_names == config.label_names);
  CHECK(read.problem_type == config.problem_type);
  CHECK(read.prediction_range == config.prediction_range);
  CHECK(read.pad_token_id == 3);
  CHECK(read.cls_token_id == 4);
  CHECK(!read.sep_token_id);
}

TEST_CASE("the head decides the architecture, and labels are written only where there are some") {
  const auto classifier = nlohmann::json::parse(model::hf_config_text({}, layers::sequence_head()));
  CHECK(classifier["architectures"][0] == "BertForSequenceClassification");
  CHECK(classifier["model_type"] == "bert");
  CHECK(classifier["id2label"]["1"] == "LABEL_1");
  CHECK(classifier["label2id"]["LABEL_1"] == 1);
  const auto masked = nlohmann::json::parse(model::hf_config_text({}, layers::masked_lm_head()));
  CHECK(masked["architectures"][0] == "BertForMaskedLM");
  CHECK(!masked.contains("id2label"));
}

TEST_CASE("label names that are not UTF-8 are written as replacement characters") {
  ModelConfig config;
  config.label_names = {"\xff", "b"};
  const std::string text = model::hf_config_text(config, layers::sequence_head());
  CHECK(model::parse_hf_config(text, "config.json").label_names[0] == "\xEF\xBF\xBD");
}

TEST_CASE("labels come from id2label in any order, or from num_labels") {
  const ModelConfig named = model::parse_hf_config(R"({"id2label": {"1": "b", "0": "a", "2": "c"}})", "config.json");
  CHECK(named.label_names == std::vector<std::string>{"a", "b", "c"});
  CHECK(model::parse_hf_config(R"({"num_labels": 1})", "config.json").num_labels() == 1);
  const auto numbered = [](const std::string& label2id) {
    return model::parse_hf_config(R"({"label2id": )" + label2id + "}", "config.json").label_names;
  };
  CHECK(numbered(R"({"b": 2, "c": 0, "a": 1})") == std::vector<std::string>{"c", "a", "b"});
  for (const char* other :
       {R"({"a": 1, "b": 2})", R"({"a": 0, "b": 0})", R"({"a": "0"})", R"({"a": -1})", "{}", "null"}) {
    CHECK(numbered(other) == model::default_label_names(2));
  }
}

TEST_CASE("errors name every wrong value and the allowed values") {
  struct Case {
    std::string text, says;
  };
  const std::vector<Case> cases = {
      {R"({"hidden_size": "768"})", "hidden_size must be a whole number, but is string"},
      {R"({"hidden_size": 768.5})", "hidden_size must be a whole number"},
      {R"({"hidden_size": null})", "hidden_size must be a whole number"},
      {R"({"hidden_size": 770})", "no multiple"},
      {R"({"hidden_size": 0})", "between 1 and"},
      {R"({"num_attention_heads": 0})", "num_attention_heads is 0"},
      {R"({"vocab_size": -5})", "vocab_size is -5"},
      {R"({"vocab_size": 18446744073709551615})", "vocab_size must be"},
      {R"({"vocab_size": 99999999999999999999999})", "vocab_size must be"},
      {R"({"num_hidden_layers": 1000000000})", "num_hidden_layers"},
      {R"({"hidden_dropout_prob": 1.0})", "hidden_dropout_prob is 1"},
      {R"({"attention_probs_dropout_prob": -0.1})", "attention_probs_dropout_prob"},
      {R"({"attention_probs_dropout_prob": 0.001})", "in steps of 1/256"},
      {R"({"attention_probs_dropout_prob": 0.9999})", "in steps of 1/256"},
      {R"({"classifier_dropout": "0.1"})", "classifier_dropout must be a number or null"},
      {R"({"layer_norm_eps": 0})", "layer_norm_eps"},
      {R"({"hidden_act": "relu"})", "only \"gelu\""},
      {R"({"hidden_act": ["gelu"]})", "hidden_act must be a string"},
      {R"({"model_type": "t5"})", "supported are \"bert\", "},
      {R"({"position_embedding_type": "relative_key"})",
       "position_embedding_type is \"relative_key\", but only \"absolute\""},
      {R"({"is_decoder": true})", "is_decoder"},
      {R"({"pad_token_id": 30522})", "token ids go from 0"},
      {R"({"problem_type": "ranking"})", "problem_type"},
      {R"({"prediction_range": [2, 1]})", "prediction_range must be two numbers"},
      {R"({"prediction_range": "labels"})", "prediction_range must be two numbers"},
      {R"({"id2label": {"0": "a", "2": "b"}})", "id2label"},
      {R"({"id2label": {"0": "a", "01": "b"}})", "id2label"},
      {R"({"id2label": {"0": 5}})", "id2label"},
      {R"({"id2label": {}})", "number of labels"},
      {R"({"id2label": ["a"]})", "id2label must be an object"},
      {R"({"id2label": {"0": "a"}, "num_labels": 2})", "must agree"},
      {R"({"num_labels": 99999999999})", "num_labels"},
      {R"({"vocab_size": 5, "vocab_size": 6})", "twice"},
      {R"({"a": )" + std::string(100, '[') + std::string(100, ']') + "}", "nested deeper"},
      {"", "not valid JSON"},
      {"[]", "must be one JSON object"},
      {"{\"a\": \"\xff\"}", "not valid JSON"},
      {std::string("{\"hidden_size\": 1}\0{", 20), "zero byte"},
      {R"({"layer_norm_eps": NaN})", "not valid JSON"},
  };
  for (const Case& one : cases) {
    const auto failure = parse_failure(one.text);
    INFO(one.text << "\n" << failure.message);
    CHECK(failure.code == test::files_code);
    CHECK(failure.says(one.says));
    CHECK(failure.says("config.json"));
  }
}

TEST_CASE("keys of a model_type that is not built in are not judged") {
  const auto failure = parse_failure(R"({"model_type": "t5", "hidden_act": "relu"})");
  CHECK(failure.says("model_type is \"t5\""));
  CHECK_FALSE(failure.says("hidden_act"));
}

TEST_CASE("all problems of a config are reported at once") {
  const auto failure = parse_failure(R"({"hidden_size": "x", "hidden_act": "silu", "vocab_size": 0})");
  CHECK(failure.says("1. hidden_size"));
  CHECK(failure.says("2. vocab_size"));
  CHECK(failure.says("3. hidden_act"));
}

TEST_CASE("errors distinguish a folder without config.json from a folder that does not exist") {
  test::ScratchFolder folder;
  CHECK(failure_of([&] { model::read_hf_config(folder.path()); }).says("config.json: missing"));
  CHECK(failure_of([&] { model::read_hf_config(folder / "bert-base-uncased"); }).says("Nothing is downloaded"));
  std::filesystem::create_directory(folder / "config.json");
  CHECK(failure_of([&] { model::read_hf_config(folder.path()); }).says("directory"));
}

TEST_CASE("mutated configs are refused or give values in range") {
  std::mt19937 random(7);
  const std::string whole = model::hf_config_text({}, layers::sequence_head());
  for (int round = 0; round < 3000; ++round) {
    std::string text = whole;
    for (unsigned i = 0; i <= random() % 3; ++i) {
      const std::size_t position = random() % text.size();
      if (random() % 2) {
        text[position] = static_cast<char>("0123456789{}[],:\"-.etn"[random() % 22]);
      } else {
        text.erase(position, 1 + random() % 5);
      }
    }
    ModelConfig config;
    const auto failure = failure_of([&] { config = model::parse_hf_config(text, "config.json"); });
    if (failure.code != -1 && failure.code != test::files_code) FAIL("round " << round << ": " << failure.message);
    const bool in_range = config.hidden_size >= 1 && config.num_attention_heads >= 1 &&
                          config.hidden_size % config.num_attention_heads == 0 && config.num_labels() >= 1;
    if (!in_range) FAIL("round " << round << " accepted:\n" << text);
  }
}
