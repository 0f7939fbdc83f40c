// Folders of adapters: what is written is read, beside a model with adapters and one without, and what cannot be used
// is named.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <map>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/model/peft_adapter.hpp"
#include "files.hpp"
#include "support/vector.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;
using core::ParameterSpec;
using test::failure_of;

namespace {

const std::string layer = "bert.encoder.layer.0.attention.self.query";

/// A layer (3, 4) and a head, without and with the layer's adapter of rank 2.
std::vector<ParameterSpec> specs(bool adapted, bool magnitudes = false) {
  std::vector<ParameterSpec> specs = {{layer + ".weight", {3, 4}}, {"classifier.weight", {2, 3}}};
  if (adapted) layers::declare_adapters({{layer, 4, 3}}, {.rank = 2, .magnitudes = magnitudes}, specs);
  return specs;
}

const std::vector<float> a = {1, 2, 3, 4, 5, 6, 7, 8};  // (2, 4)
const std::vector<float> b = {1, 4, 2, 5, 3, 6};        // (3, 2): transposed {1, 2, 3, 4, 5, 6}
const std::vector<float> head = {1, 0, -1, 0, 1, 2};
const std::vector<float> magnitudes = {2, 3, 0.5f};

std::vector<model::TensorToWrite> tensors() {
  return {{.name = "base_model.model." + layer + ".lora_A.weight", .shape = {2, 4}, .values = a},
          {.name = "base_model.model." + layer + ".lora_B.weight", .shape = {3, 2}, .values = b},
          {.name = "base_model.model.classifier.weight", .shape = {2, 3}, .values = head}};
}

std::vector<model::TensorToWrite> tensors_with_magnitudes() {
  std::vector<model::TensorToWrite> all = tensors();
  all.push_back({.name = "base_model.model." + layer + ".lora_magnitude_vector", .shape = {3}, .values = magnitudes});
  return all;
}

void save(const std::filesystem::path& folder, std::vector<model::TensorToWrite> written, bool dora = false) {
  model::AdapterFacts facts;
  facts.base_model = "base";
  facts.base_hash = 0x1234abcd;
  facts.settings = {.rank = 2, .alpha = 6, .magnitudes = dora, .targets = {"query"}};
  facts.trained = {"classifier.weight"};
  facts.class_suffix = "ForSequenceClassification";
  facts.config = "{}\n";
  model::save_peft_adapter(folder, facts, std::move(written));
}

std::vector<float> values_of(const core::ParameterStore& store, const std::string& name) {
  const core::Tensor<const float> view = store.value(store.find(name));
  return test::copy_of(view.data, view.size());
}

}  // namespace

TEST_CASE("an adapter is loaded beside a weight, or added to it", "[model][peft]") {
  const test::ScratchFolder folder;
  save(folder.path(), tensors());
  const model::PeftAdapter adapter(folder.path(), "bert");
  CHECK(adapter.settings().rank == 2);
  CHECK(adapter.settings().scale() == 3);
  CHECK(adapter.settings().targets == std::vector<std::string>{layer});
  CHECK(adapter.replaced() == std::vector<std::string>{"classifier.weight"});
  CHECK(adapter.base_hash() == 0x1234abcd);
  for (const bool adapted : {true, false}) {
    adapter.check(specs(adapted));
    core::ParameterStore store(specs(adapted), core::ParameterStore::Arenas::values);
    adapter.load(store);
    CHECK(values_of(store, "classifier.weight") == head);
    if (adapted) {
      CHECK(values_of(store, layers::adapter_a(layer)) == a);
      CHECK(values_of(store, layers::adapter_b(layer)) == std::vector<float>{1, 2, 3, 4, 5, 6});
      CHECK(values_of(store, layer + ".weight") == std::vector<float>(12, 0));
    } else {
      // 3 · Σ_k b(o, k)·a(k, i)
      CHECK(values_of(store, layer + ".weight") ==
            std::vector<float>{63, 78, 93, 108, 81, 102, 123, 144, 99, 126, 153, 180});
    }
  }
}

TEST_CASE("magnitudes are loaded beside a weight, or become the norms of its rows", "[model][peft]") {
  const test::ScratchFolder folder;
  save(folder.path(), tensors_with_magnitudes(), true);
  const model::PeftAdapter adapter(folder.path(), "bert");
  CHECK(adapter.settings().magnitudes);
  CHECK(adapter.replaced() == std::vector<std::string>{"classifier.weight"});
  adapter.check(specs(true, true));
  core::ParameterStore store(specs(true, true), core::ParameterStore::Arenas::values);
  adapter.load(store);
  CHECK(values_of(store, layers::adapter_magnitude(layer)) == magnitudes);
  CHECK(values_of(store, layer + ".weight") == std::vector<float>(12, 0));
  core::ParameterStore merged(specs(false), core::ParameterStore::Arenas::values);
  adapter.load(merged);
  const std::vector<float> w = values_of(merged, layer + ".weight");
  // The first row was {63, 78, 93, 108}, of the norm √30366.
  CHECK(std::abs(w[0] - 2 * 63 / std::sqrt(30366.0)) < 1e-6);
  for (std::size_t o = 0; o < 3; ++o) {
    double squares = 0;
    for (std::size_t i = 0; i < 4; ++i) squares += static_cast<double>(w[4 * o + i]) * w[4 * o + i];
    CHECK(std::abs(std::sqrt(squares) - magnitudes[o]) < 1e-6);
  }
  CHECK_THAT(failure_of([&] {
               adapter.check({{layer + ".weight", {4, 4}}, {"classifier.weight", {2, 3}}});
             }).message,
             ContainsSubstring("(3), but the base model and the task make it (4)"));
}

TEST_CASE("what no layer has, or has in another shape, is named", "[model][peft]") {
  const test::ScratchFolder folder;
  save(folder.path(), tensors());
  const model::PeftAdapter adapter(folder.path(), "bert");
  CHECK_THAT(failure_of([&] {
               adapter.check({{layer + ".weight", {3, 4}}});
             }).message,
             ContainsSubstring("classifier.weight\" has no counterpart"));
  const std::string wrong = failure_of([&] {
                              adapter.check({{layer + ".weight", {5, 6}}, {"classifier.weight", {7, 3}}});
                            }).message;
  for (const char* part : {"(2, 4), but the base model and the task make it (2, 6)", "(5, 2)", "(7, 3)"}) {
    CHECK_THAT(wrong, ContainsSubstring(part));
  }
}

TEST_CASE("files of adapters that cannot be used are refused", "[model][peft]") {
  const test::ScratchFolder folder;
  const auto refusal = [&folder] {
    const test::Failure failure = failure_of([&] { model::PeftAdapter(folder.path(), "bert"); });
    CHECK(failure.code == test::files_code);
    return failure.message;
  };
  CHECK_THAT(refusal(), ContainsSubstring("adapter_model.safetensors: missing"));
  std::vector<model::TensorToWrite> without = tensors();
  without.erase(without.begin() + 1);
  save(folder.path(), without);
  CHECK_THAT(refusal(), ContainsSubstring("has lora_A, but no lora_B"));
  without = tensors();
  without.erase(without.begin());
  save(folder.path(), without);
  CHECK_THAT(refusal(), ContainsSubstring("has lora_B, but no lora_A") && ContainsSubstring("no tensor of an adapter"));
  save(folder.path(), tensors_with_magnitudes());
  CHECK_THAT(refusal(), ContainsSubstring("has lora_magnitude_vector, but adapter_config.json does not say use_dora"));
  save(folder.path(), tensors());
  const auto config = [&folder](const std::string& text) { test::write_file(folder / "adapter_config.json", text); };
  for (const auto& [text, wanted] : std::map<std::string, std::string>{
           {R"({"peft_type": "LORA"})", "r, the rank"},
           {R"({"peft_type": "LORA", "r": 0})", "r, the rank"},
           {R"({"peft_type": "IA3", "r": 2})", "only \"LORA\""},
           {R"({"peft_type": "LORA", "r": 4})", "says r = 4"},
           {R"({"peft_type": "LORA", "r": 2, "use_dora": true})", "has no lora_magnitude_vector"},
           {R"({"peft_type": "LORA", "r": 2, "use_dora": 1})", "use_dora"},
           {R"({"peft_type": "LORA", "r": 2, "bias": "all"})", "bias"},
           {R"({"peft_type": "LORA", "r": 2, "rank_pattern": {"query": 4}})", "rank_pattern"},
           {R"({"peft_type": "LORA", "r": 2, "lora_dropout": 1.0})", "lora_dropout"},
           {R"({"peft_type": "LORA", "r": 2, "use_rslora": "yes"})", "use_rslora"},
           {R"([])", "adapter_config.json"}}) {
    INFO(text);
    config(text);
    CHECK_THAT(refusal(), ContainsSubstring(wanted));
  }
  config(R"({"peft_type": "LORA", "r": 2, "lora_alpha": 6, "use_rslora": true, "unknown": [1]})");
  CHECK(model::PeftAdapter(folder.path(), "bert").settings().rank_stabilized);
}
