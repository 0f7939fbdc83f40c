// Tables of weights of an invented family: matrices that files store transposed, and tensors that several parameters
// share, in and out of a folder bit for bit, whole and in shards.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <map>
#include <numeric>

#include "bert_hpc/layers/low_rank_adapter.hpp"
#include "bert_hpc/model/hf_weights.hpp"
#include "bert_hpc/model/peft_adapter.hpp"
#include "files.hpp"
#include "support/safetensors_file.hpp"
#include "support/vector.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;
using core::ParameterSpec;
using core::ParameterStore;
using test::failure_of;
using Values = std::vector<float>;

namespace {

// (out, in) of query, key and value: (2, 3) each, joint and transposed in files; a projection (3, 4), transposed; a
// joint matrix of two parameters that is not transposed; and a vector under its own name.
model::WeightTable invented_table() {
  model::WeightTable table;
  const char* const names[] = {"h.0.attn.query", "h.0.attn.key", "h.0.attn.value"};
  for (std::int64_t i = 0; i < 3; ++i) {
    const std::string name = names[i];
    table.add(name + ".weight",
              {.tensor = "h.0.attn.joint.weight", .transposed = true, .first_row = 2 * i, .tensor_rows = 6});
    table.add(name + ".bias",
              {.tensor = "h.0.attn.joint.bias", .transposed = true, .first_row = 2 * i, .tensor_rows = 6});
  }
  table.add("h.0.proj.weight", {.tensor = "h.0.proj.weight", .transposed = true});
  table.add("h.0.gate.weight", {.tensor = "h.0.wide.weight", .first_row = 1, .tensor_rows = 3});
  table.add("h.0.up.weight", {.tensor = "h.0.wide.weight", .first_row = 0, .tensor_rows = 3});
  return table;
}

std::vector<ParameterSpec> invented_parameters() {
  return {{"h.0.attn.query.weight", {2, 3}}, {"h.0.attn.key.weight", {2, 3}}, {"h.0.attn.value.weight", {2, 3}},
          {"h.0.attn.query.bias", {2}},      {"h.0.attn.key.bias", {2}},      {"h.0.attn.value.bias", {2}},
          {"h.0.proj.weight", {3, 4}},       {"h.0.up.weight", {1, 2}},       {"h.0.gate.weight", {2, 2}},
          {"h.0.norm.weight", {3}}};
}

using Tensors = std::map<std::string, std::pair<std::vector<std::int64_t>, Values>>;

Values numbers(std::size_t count, float first) {
  Values values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

Tensors invented_tensors() {
  return {{"h.0.attn.joint.weight", {{3, 6}, numbers(18, 100)}},
          {"h.0.attn.joint.bias", {{6}, numbers(6, 200)}},
          {"h.0.proj.weight", {{4, 3}, numbers(12, 300)}},
          {"h.0.wide.weight", {{3, 2}, numbers(6, 400)}},
          {"h.0.norm.weight", {{3}, {-0.0f, 1e-45f, 3}}}};
}

void write(const std::filesystem::path& path, const Tensors& tensors) {
  std::vector<model::TensorToWrite> list;
  for (const auto& [name, tensor] : tensors) list.push_back({name, tensor.first, tensor.second});
  test::write_safetensors(path, std::move(list), {{"format", "pt"}});
}

Values values_of(const ParameterStore& store, const std::string& name) {
  const core::Tensor<const float> view = store.value(store.find(name));
  return test::copy_of(view.data, view.size());
}

}  // namespace

TEST_CASE("transposed and joint tensors are read into their parameters", "[model][weights]") {
  const test::ScratchFolder folder;
  write(folder / "model.safetensors", invented_tensors());
  ParameterStore store(invented_parameters(), ParameterStore::Arenas::values);
  const model::LoadReport report = model::load_hf_weights(folder.path(), store, {.weights = invented_table()});
  CHECK(report.text().empty());
  CHECK(values_of(store, "h.0.attn.query.weight") == Values{100, 106, 112, 101, 107, 113});
  CHECK(values_of(store, "h.0.attn.value.weight") == Values{104, 110, 116, 105, 111, 117});
  CHECK(values_of(store, "h.0.attn.key.bias") == Values{202, 203});
  CHECK(values_of(store, "h.0.proj.weight") == Values{300, 303, 306, 309, 301, 304, 307, 310, 302, 305, 308, 311});
  CHECK(values_of(store, "h.0.up.weight") == Values{400, 401});
  CHECK(values_of(store, "h.0.gate.weight") == Values{402, 403, 404, 405});
}

TEST_CASE("shards of transposed and joint tensors are the shards of their parameters", "[model][weights]") {
  const test::ScratchFolder folder;
  write(folder / "model.safetensors", invented_tensors());
  const std::int64_t rank = GENERATE(0, 1);
  const std::vector<ParameterSpec> here = {{.name = "h.0.attn.key.weight", .shape = {1, 3}, .shard = {0, rank, 2}},
                                           {.name = "h.0.attn.key.bias", .shape = {1}, .shard = {0, rank, 2}},
                                           {.name = "h.0.proj.weight", .shape = {3, 2}, .shard = {1, 2 * rank, 4}},
                                           {.name = "h.0.gate.weight", .shape = {2, 1}, .shard = {1, rank, 2}}};
  ParameterStore store(here, ParameterStore::Arenas::values);
  ParameterStore whole(invented_parameters(), ParameterStore::Arenas::values);
  model::load_hf_weights(folder.path(), store, {.weights = invented_table()});
  model::load_hf_weights(folder.path(), whole, {.weights = invented_table()});
  for (const ParameterSpec& spec : here) {
    INFO(spec.name);
    CHECK(values_of(store, spec.name) == core::take_shard(spec.shape, spec.shard, values_of(whole, spec.name)));
  }
}

TEST_CASE("parameters are written into transposed and joint tensors bit for bit", "[model][weights]") {
  const test::ScratchFolder folder;
  const Tensors tensors = invented_tensors();
  write(folder / "model.safetensors", tensors);
  const model::WeightTable table = invented_table();
  ParameterStore store(invented_parameters(), ParameterStore::Arenas::values);
  model::load_hf_weights(folder.path(), store, {.weights = table});
  std::vector<Values> values;
  std::vector<model::TensorToWrite> parameters;
  for (const ParameterSpec& spec : invented_parameters()) values.push_back(values_of(store, spec.name));
  std::int64_t piece = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    model::TensorToWrite tensor{.name = invented_parameters()[i].name, .shape = invented_parameters()[i].shape};
    const Values& all = values[i];
    tensor.fetch = [&all, &piece](std::int64_t begin) {  // in pieces of one or two elements
      piece = piece % 2 + 1;
      return std::span(all).subspan(static_cast<std::size_t>(begin), std::min<std::size_t>(piece, all.size() - begin));
    };
    parameters.push_back(std::move(tensor));
  }
  std::sort(parameters.begin(), parameters.end(),
            [&table](const auto& a, const auto& b) { return table.is_before(a.name, b.name); });
  test::write_safetensors(folder / "written.safetensors", model::as_stored(parameters, table), {{"format", "pt"}});
  CHECK(test::read_file(folder / "written.safetensors") == test::read_file(folder / "model.safetensors"));
  parameters.erase(std::find_if(parameters.begin(), parameters.end(),
                                [](const auto& tensor) { return tensor.name == "h.0.attn.key.bias"; }));
  CHECK_THAT(failure_of([&] { model::as_stored(parameters, table); }).message, ContainsSubstring("do not fill"));
}

TEST_CASE("missing, extra and mis-shaped tensors of a table are named once, by their names in files",
          "[model][weights]") {
  const test::ScratchFolder folder;
  Tensors tensors = invented_tensors();
  tensors.erase("h.0.attn.joint.weight");
  tensors["h.0.attn.joint.bias"] = {{5}, numbers(5, 0)};
  tensors["h.0.proj.weight"] = {{3, 4}, numbers(12, 0)};
  write(folder / "model.safetensors", tensors);
  ParameterStore store(invented_parameters(), ParameterStore::Arenas::values);
  const test::Failure failure =
      failure_of([&] { model::load_hf_weights(folder.path(), store, {.weights = invented_table()}); });
  CHECK(failure.code == test::files_code);
  CHECK_THAT(failure.message, ContainsSubstring("h.0.attn.joint.weight is missing; it should have the shape (3, 6)"));
  CHECK_THAT(failure.message, ContainsSubstring("has the shape (5), but config.json and the task make it (6)"));
  CHECK_THAT(failure.message, ContainsSubstring("has the shape (3, 4), but config.json and the task make it (4, 3)"));
  const auto lines = std::count(failure.message.begin(), failure.message.end(), '\n');
  CHECK(lines <= 4);
  tensors = invented_tensors();
  tensors["h.0.other"] = {{1}, {0}};
  write(folder / "model.safetensors", tensors);
  const model::LoadReport report = model::load_hf_weights(folder.path(), store, {.weights = invented_table()});
  CHECK(report.unused == std::vector<std::string>{"h.0.other"});
}

TEST_CASE("an adapter beside a joint tensor becomes one beside each of its parameters", "[model][weights][peft]") {
  const test::ScratchFolder folder;
  const std::string module = "base_model.model.h.0.attn.joint";
  const Values a = {1, 2, 3}, b = {1, 2, 3, 4, 5, 6};
  model::AdapterFacts facts;
  facts.settings = {.rank = 1, .alpha = 1, .targets = {"joint"}};
  facts.stored_transposed = true;
  facts.config = "{}\n";
  model::save_peft_adapter(folder.path(), facts,
                           {{.name = module + ".lora_A.weight", .shape = {1, 3}, .values = a},
                            {.name = module + ".lora_B.weight", .shape = {6, 1}, .values = b}});
  const model::PeftAdapter adapter(folder.path(), "bert");
  const model::WeightTable table = invented_table();
  adapter.check(invented_parameters(), table);
  std::vector<ParameterSpec> specs = invented_parameters();
  for (const char* const layer : {"h.0.attn.query", "h.0.attn.key"}) {
    layers::declare_adapters({{layer, 3, 2}}, {.rank = 1}, specs);
  }
  ParameterStore store(specs, ParameterStore::Arenas::values);
  adapter.load(store, table);
  CHECK(values_of(store, "h.0.attn.key.lora_A.weight") == a);
  CHECK(values_of(store, "h.0.attn.key.lora_B.weight") == Values{3, 4});
  CHECK(values_of(store, "h.0.attn.key.weight") == Values(6, 0));
  CHECK(values_of(store, "h.0.attn.value.weight") == Values{5, 10, 15, 6, 12, 18});  // it has none: added to the weight
  CHECK_THAT(failure_of([&] {
               adapter.check({{"h.0.attn.joint.weight", {6, 3}}});
             }).message,
             ContainsSubstring("fan_in_fan_out"));
}
