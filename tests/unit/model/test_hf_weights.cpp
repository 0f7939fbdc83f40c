// Hugging Face folders: names old and new, tied decoders, fresh heads, shards, and folders that must be refused.
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <map>

#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/model/hf_weights.hpp"
#include "bert_hpc/model/safetensors.hpp"
#include "files.hpp"
#include "support/safetensors_file.hpp"
#include "support/vector.hpp"

using namespace bert_hpc;
using core::ParameterSpec;
using core::ParameterStore;
using model::LoadOptions;
using test::failure_of;

namespace {

// The parts of a model that matter here: embeddings, one layer norm, a head.
const std::vector<ParameterSpec> classifier_specs = {
    {"bert.embeddings.word_embeddings.weight", {5, 4}},
    {"bert.embeddings.LayerNorm.weight", {4}, false},
    {"bert.embeddings.LayerNorm.bias", {4}, false},
    {"bert.pooler.dense.weight", {4, 4}},
    {"classifier.weight", {3, 4}},
    {"classifier.bias", {3}, false},
};
const std::vector<ParameterSpec> masked_lm_specs = {
    {"bert.embeddings.word_embeddings.weight", {5, 4}},
    {"cls.predictions.bias", {5}, false},
    {"cls.predictions.transform.dense.weight", {4, 4}},
};

ParameterStore make_store(const std::vector<ParameterSpec>& specs, float first = 0) {
  ParameterStore store(specs, ParameterStore::Arenas::values);
  std::vector<float> values = test::copy_of(store.values());
  for (const core::ParameterSlice& slice : store.slices()) {
    for (std::int64_t i = 0; i < slice.size; ++i) {
      values[static_cast<std::size_t>(slice.offset + i)] = first + 0.1f * static_cast<float>(slice.offset + i);
    }
  }
  core::copy_to_device<float>(values, store.change_values());
  return store;
}

std::vector<float> values_of(const ParameterStore& store, const std::string& name) {
  const core::Tensor<const float> view = store.value(store.find(name));
  return test::copy_of(view.data, view.size());
}

bool same_bits(const ParameterStore& a, const ParameterStore& b) {
  const std::vector<float> left = test::copy_of(a.values()), right = test::copy_of(b.values());
  return left.size() == right.size() && std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0;
}

using Tensors = std::map<std::string, std::pair<std::vector<std::int64_t>, std::vector<float>>>;

Tensors tensors_of(const ParameterStore& store) {
  Tensors tensors;
  for (const core::ParameterSlice& slice : store.slices()) {
    tensors[slice.name] = {slice.shape, values_of(store, slice.name)};
  }
  return tensors;
}

void rename(Tensors& tensors, const std::string& from, const std::string& to) {
  auto node = tensors.extract(from);
  node.key() = to;
  tensors.insert(std::move(node));
}

void write(const std::filesystem::path& path, const Tensors& tensors) {
  std::vector<model::TensorToWrite> list;
  for (const auto& [name, tensor] : tensors) list.push_back({name, tensor.first, tensor.second});
  test::write_safetensors(path, std::move(list), {{"format", "pt"}});
}

test::Failure load_failure(const test::ScratchFolder& folder, const std::vector<ParameterSpec>& specs,
                           const LoadOptions& options = {}) {
  ParameterStore store(specs, ParameterStore::Arenas::values);
  return failure_of([&] { model::load_hf_weights(folder.path(), store, options); });
}

/// Options for a model whose decoder is its word embeddings.
LoadOptions of_tied_decoder() {
  LoadOptions options;
  options.weights.set_tied("cls.predictions.decoder.weight");
  return options;
}

}  // namespace

TEST_CASE("a folder comes back bit for bit, config and tokenizer files with it") {
  test::ScratchFolder folder;
  const model::NamedTexts tokenizer = {{"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n\xC3\xA9\n"},
                                       {"tokenizer_config.json", "{\"do_lower_case\": true}"}};
  ParameterStore store = make_store(classifier_specs);
  const std::vector<float> special = {-0.0f, std::bit_cast<float>(1u)};  // and the smallest subnormal
  core::copy_to_device<float>(special, store.change_values().first(2));
  model::ModelConfig config;
  config.label_names = {"a", "b", "c"};
  model::save_hf_folder(folder / "new/model", config, layers::sequence_head(), store, tokenizer);
  ParameterStore read(classifier_specs, ParameterStore::Arenas::values);
  const model::LoadReport report = model::load_hf_weights(folder / "new/model", read);
  CHECK(report.newly_initialised.empty());
  CHECK(report.unused.empty());
  CHECK(report.text().empty());
  CHECK(same_bits(read, store));
  CHECK(model::read_hf_config(folder / "new/model").label_names == config.label_names);
  CHECK(test::read_file(folder / "new/model/vocab.txt") == "[PAD]\n[UNK]\n[CLS]\n[SEP]\n\xC3\xA9\n");
  CHECK(test::read_file(folder / "new/model/tokenizer_config.json") == "{\"do_lower_case\": true}");
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder / "new/model")) ++files;
  CHECK(files == 4);  // no unfinished file is left
  // Saving over the folder without the tokenizer keeps its files.
  model::save_hf_folder(folder / "new/model", config, layers::sequence_head(), read);
  CHECK(test::read_file(folder / "new/model/vocab.txt") == "[PAD]\n[UNK]\n[CLS]\n[SEP]\n\xC3\xA9\n");
}

TEST_CASE("names without prefix, gamma and beta, and buffers are understood") {
  test::ScratchFolder folder;
  const ParameterStore store = make_store(classifier_specs, 1);
  Tensors tensors = tensors_of(store);
  rename(tensors, "bert.embeddings.word_embeddings.weight", "embeddings.word_embeddings.weight");
  rename(tensors, "bert.embeddings.LayerNorm.weight", "embeddings.LayerNorm.gamma");
  rename(tensors, "bert.embeddings.LayerNorm.bias", "bert.embeddings.LayerNorm.beta");
  rename(tensors, "bert.pooler.dense.weight", "pooler.dense.weight");
  tensors["embeddings.position_ids"] = {{1, 2}, {0, 1}};
  tensors["cls.seq_relationship.bias"] = {{2}, {0, 1}};
  write(folder / "model.safetensors", tensors);
  ParameterStore read(classifier_specs, ParameterStore::Arenas::values);
  const model::LoadReport report = model::load_hf_weights(folder.path(), read);
  CHECK(same_bits(read, store));
  CHECK(report.unused == std::vector<std::string>{"cls.seq_relationship.bias"});
  CHECK(report.text() == "not used from the file (1): cls.seq_relationship.bias\n");
}

TEST_CASE("the same weights under two names are refused") {
  test::ScratchFolder folder;
  Tensors tensors = tensors_of(make_store(classifier_specs));
  tensors["embeddings.LayerNorm.gamma"] = {{4}, {1, 2, 3, 4}};
  write(folder / "model.safetensors", tensors);
  const auto failure = load_failure(folder, classifier_specs);
  CHECK(failure.code == test::files_code);
  CHECK(failure.says("stored twice"));
  CHECK(failure.says("embeddings.LayerNorm.gamma"));
}

TEST_CASE("a fresh head is listed where the caller allows it, and an error where not") {
  test::ScratchFolder folder;
  Tensors tensors = tensors_of(make_store(classifier_specs));
  tensors.erase("classifier.weight");
  tensors.erase("bert.pooler.dense.weight");
  tensors["classifier.bias"] = {{2}, {8, 9}};  // a head for other labels
  write(folder / "model.safetensors", tensors);
  const auto failure = load_failure(folder, classifier_specs);
  CHECK(failure.code == test::files_code);
  CHECK(failure.says("classifier.weight is missing; it should have the shape (3, 4)"));
  CHECK(failure.says("bert.pooler.dense.weight is missing"));
  CHECK(failure.says("\"classifier.bias\" in model.safetensors has the shape (2)"));

  LoadOptions options{.may_be_missing = model::head_prefixes(layers::sequence_head())};
  CHECK(load_failure(folder, classifier_specs, options).says("has the shape (2)"));
  options.replace_other_shapes = true;
  ParameterStore store = make_store(classifier_specs, 100);
  const std::vector<float> head_before = values_of(store, "classifier.bias");
  const model::LoadReport report = model::load_hf_weights(folder.path(), store, options);
  CHECK(report.newly_initialised ==
        std::vector<std::string>{"bert.pooler.dense.weight", "classifier.weight", "classifier.bias"});
  CHECK(report.replaced == std::vector<std::string>{"classifier.bias (shape (2), but this task needs (3))"});
  CHECK(report.text() ==
        "newly initialised (3): bert.pooler.dense.weight, classifier.weight, classifier.bias\n"
        "not used from the file (1): classifier.bias (shape (2), but this task needs (3))\n");
  CHECK(values_of(store, "classifier.bias") == head_before);
  CHECK(values_of(store, "bert.embeddings.LayerNorm.weight")[0] < 100);
}

TEST_CASE("a head that is not wanted stays new though the folder has it") {
  test::ScratchFolder folder;
  write(folder / "model.safetensors", tensors_of(make_store(classifier_specs)));
  LoadOptions options{.may_be_missing = model::head_prefixes(layers::sequence_head())};
  options.not_wanted = {"classifier.weight", "classifier.bias"};
  ParameterStore store = make_store(classifier_specs, 100);
  const std::vector<float> head_before = values_of(store, "classifier.weight");
  const model::LoadReport report = model::load_hf_weights(folder.path(), store, options);
  CHECK(report.newly_initialised == options.not_wanted);
  CHECK(report.left == options.not_wanted);
  CHECK(values_of(store, "classifier.weight") == head_before);
  CHECK(values_of(store, "bert.pooler.dense.weight")[0] < 100);
}

TEST_CASE("names of a wrapped model are read without the wrapper's prefix, and the log says so") {
  for (const std::string wrapper : {"module.", "_orig_mod.", "model.", "module._orig_mod."}) {
    test::ScratchFolder folder;
    const ParameterStore store = make_store(classifier_specs);
    Tensors wrapped;
    for (const auto& [name, tensor] : tensors_of(store)) wrapped[wrapper + name] = tensor;
    write(folder / "model.safetensors", wrapped);
    ParameterStore read(classifier_specs, ParameterStore::Arenas::values);
    const model::LoadReport report = model::load_hf_weights(folder.path(), read);
    CHECK(same_bits(read, store));
    CHECK(report.text() == "names in the file begin with \"" + wrapper + "\", as of a wrapped model: read without\n");
  }
}

TEST_CASE("missing, misshaped and unknown tensors are listed together, in at most ten lines") {
  test::ScratchFolder folder;
  std::vector<ParameterSpec> specs = classifier_specs;
  Tensors tensors = tensors_of(make_store(classifier_specs));
  for (int i = 0; i < 30; ++i) {
    const std::string name = "bert.encoder." + std::to_string(i);
    specs.push_back({name, {4}, false});
    if (i % 2 == 0) tensors[name] = {{2}, {1, 2}};
  }
  for (int i = 0; i < 100; ++i) tensors["bert.other." + std::to_string(i)] = {{1}, {1}};
  write(folder / "model.safetensors", tensors);
  const auto failure = failure_of([&] { model::check_hf_weights(folder.path(), specs); });
  CHECK(failure.says("\"bert.encoder.0\" in model.safetensors has the shape (2)"));
  CHECK(failure.says("bert.encoder.1 is missing"));
  CHECK(failure.says("11 more parameters are missing, and 11 more tensors have other shapes."));
  CHECK(failure.says("The model has no parameters for 100 tensors: bert.other.0, bert.other.1"));
  CHECK(std::count(failure.message.begin(), failure.message.end(), '\n') == 10);
}

TEST_CASE("many missing parameters are counted, and a folder without any has one line") {
  test::ScratchFolder folder;
  std::vector<ParameterSpec> specs = classifier_specs;
  for (int i = 0; i < 30; ++i) specs.push_back({"bert.encoder." + std::to_string(i), {4}, false});
  write(folder / "model.safetensors", tensors_of(make_store(classifier_specs)));
  const auto failure = load_failure(folder, specs);
  CHECK(failure.says("bert.encoder.7 is missing"));
  CHECK_FALSE(failure.says("bert.encoder.8 is missing"));
  CHECK(failure.says("22 more parameters are missing."));
  write(folder / "model.safetensors", Tensors{{"other.weight", {{1}, {1}}}});
  const auto foreign = load_failure(folder, specs);
  CHECK(foreign.says("its first tensor is \"other.weight\""));
  CHECK(foreign.says("names are expected such as bert.embeddings.word_embeddings.weight"));
  CHECK_FALSE(foreign.says("\n"));
}

TEST_CASE("a stored decoder must be the tied one, and its bias may have either name") {
  test::ScratchFolder folder;
  const ParameterStore store = make_store(masked_lm_specs);
  Tensors tensors = tensors_of(store);
  tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"];
  rename(tensors, "cls.predictions.bias", "cls.predictions.decoder.bias");
  write(folder / "model.safetensors", tensors);
  ParameterStore read(masked_lm_specs, ParameterStore::Arenas::values);
  const model::LoadReport report = model::load_hf_weights(folder.path(), read, of_tied_decoder());
  CHECK(report.unused.empty());
  CHECK(report.replaced.empty());
  CHECK(same_bits(read, store));

  tensors["cls.predictions.bias"] = tensors["cls.predictions.decoder.bias"];
  write(folder / "model.safetensors", tensors);
  CHECK(load_failure(folder, masked_lm_specs, of_tied_decoder()).code == -1);
  tensors["cls.predictions.bias"].second[2] += 1;
  tensors["cls.predictions.decoder.weight"].second[7] += 1;
  write(folder / "model.safetensors", tensors);
  const auto failure = load_failure(folder, masked_lm_specs, of_tied_decoder());
  CHECK(failure.code == test::files_code);
  CHECK(failure.says("\"cls.predictions.decoder.weight\" in model.safetensors differs from bert.embeddings.word"));
  CHECK(failure.says("\"cls.predictions.decoder.bias\" in model.safetensors differs"));
}

TEST_CASE("weights that are not finite are refused by name and index") {
  test::ScratchFolder folder;
  Tensors tensors = tensors_of(make_store(classifier_specs));
  tensors["bert.pooler.dense.weight"].second[5] = std::bit_cast<float>(0x7FC00000u);
  tensors["classifier.bias"].second[1] = std::bit_cast<float>(0xFF800000u);
  write(folder / "model.safetensors", tensors);
  const auto failure = load_failure(folder, classifier_specs);
  CHECK(failure.says("\"bert.pooler.dense.weight\" in model.safetensors contains NaN (at element 5)."));
  CHECK(failure.says("\"classifier.bias\" in model.safetensors contains an infinite value (at element 1)."));
}

TEST_CASE("the check reads no values and finds the same problems") {
  test::ScratchFolder folder;
  Tensors tensors = tensors_of(make_store(classifier_specs));
  write(folder / "model.safetensors", tensors);
  CHECK(model::check_hf_weights(folder.path(), classifier_specs).unused.empty());
  const ParameterStore store = make_store(masked_lm_specs);
  CHECK(failure_of([&] { model::check_hf_weights(folder.path(), store); }).says("cls.predictions.bias is missing"));
}

TEST_CASE("an encoder without a classifier is not fine-tuned") {
  test::ScratchFolder folder;
  Tensors tensors = tensors_of(make_store(classifier_specs));
  tensors.erase("classifier.weight");
  tensors.erase("classifier.bias");
  write(folder / "model.safetensors", tensors);
  const auto failure = failure_of([&] { model::check_hf_weights(folder.path(), classifier_specs); });
  CHECK(
      failure.says("It holds an encoder, which is not fine-tuned and has no classifier: train it for the task first"));
  CHECK_FALSE(failure.says("classifier.weight is missing"));
}

TEST_CASE("a masked language model's missing classifier is an error, except where one is to be trained") {
  test::ScratchFolder folder;
  write(folder / "model.safetensors", tensors_of(make_store(masked_lm_specs)));
  const auto failure = failure_of([&] { model::check_hf_weights(folder.path(), classifier_specs); });
  CHECK(failure.says("language model, which has no classifier yet"));
  CHECK_FALSE(failure.says("classifier.weight is missing"));
  CHECK_FALSE(failure.says("bert.pooler.dense.weight is missing"));
  CHECK(failure.says("bert.embeddings.LayerNorm.weight is missing"));
  const model::LoadOptions trains{{"classifier.", "bert.pooler.", "bert.embeddings.LayerNorm."},
                                  /*replace_other_shapes=*/true};
  CHECK(model::check_hf_weights(folder.path(), classifier_specs, trains).newly_initialised.size() == 5);
}

TEST_CASE("weights in shards are found through the index") {
  test::ScratchFolder folder;
  const ParameterStore store = make_store(classifier_specs);
  Tensors first = tensors_of(store), second;
  for (const char* name : {"classifier.weight", "bert.pooler.dense.weight"}) second.insert(first.extract(name));
  const std::string name1 = "model-00001-of-00002.safetensors", name2 = "model-00002-of-00002.safetensors";
  write(folder / name1, first);
  write(folder / name2, second);
  const auto index = [&](const std::string& classifier_file) {
    std::string text = "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {";
    for (const auto& [name, tensor] : first) text += "\"" + name + "\": \"" + name1 + "\", ";
    text += "\"bert.pooler.dense.weight\": \"" + name2 + "\", \"classifier.weight\": " + classifier_file + "}}";
    test::write_file(folder / "model.safetensors.index.json", text);
  };
  index("\"" + name2 + "\"");
  ParameterStore read(classifier_specs, ParameterStore::Arenas::values);
  CHECK(model::load_hf_weights(folder.path(), read).unused.empty());
  CHECK(same_bits(read, store));

  index("\"" + name1 + "\"");
  CHECK(load_failure(folder, classifier_specs).says(name1 + " lacks \"classifier.weight\""));
  index("\"model-00003-of-00003.safetensors\"");
  CHECK(load_failure(folder, classifier_specs).says("\"model-00003-of-00003.safetensors\" is missing"));
  index("\"../../secret.safetensors\"");
  CHECK(load_failure(folder, classifier_specs).says("same folder"));
  index("3");
  CHECK(load_failure(folder, classifier_specs).says("same folder"));
  test::write_file(folder / "model.safetensors.index.json", "{}");
  CHECK(load_failure(folder, classifier_specs).says("weight_map"));
}

TEST_CASE("the error for a folder without usable weights states a remedy") {
  test::ScratchFolder folder;
  CHECK(load_failure(folder, classifier_specs).says("holds neither model.safetensors"));
  test::write_file(folder / "pytorch_model.bin", "x");
  const auto failure = load_failure(folder, classifier_specs);
  CHECK(failure.code == test::files_code);
  CHECK(failure.says("convert it once"));
  CHECK(failure.says("torch.load('" + folder.path().string()));
  Tensors tensors;
  tensors["model.layers.0.mlp.weight"] = {{1}, {1}};
  write(folder / "model.safetensors", tensors);
  CHECK(load_failure(folder, classifier_specs).says("nothing in it has a BERT model's name"));
}

TEST_CASE("a folder that cannot be written is an error and stays as it was") {
  test::ScratchFolder folder;
  test::write_file(folder / "file", "x");
  const ParameterStore store = make_store(classifier_specs);
  const auto failure = failure_of([&] { model::save_hf_folder(folder / "file", {}, layers::sequence_head(), store); });
  CHECK(failure.code == test::files_code);
  CHECK(failure.says("file: cannot be created"));
  CHECK(test::read_file(folder / "file") == "x");
}

TEST_CASE("each rank of a tensor group reads its slices, and errors name the index in the whole tensor") {
  test::ScratchFolder folder;
  std::vector<ParameterSpec> specs = masked_lm_specs;
  specs.push_back({"bert.encoder.layer.0.output.dense.weight", {4, 7}});
  ParameterStore whole = make_store(specs, 1);
  Tensors tensors = tensors_of(whole);
  tensors["cls.predictions.decoder.weight"] = tensors[specs[0].name];  // a tied decoder, stored
  write(folder / "model.safetensors", tensors);

  // A part of each, as its begin and its share say; the transform is whole.
  const auto parts = [&](std::int64_t rows, std::int64_t row, std::int64_t columns, std::int64_t column) {
    std::vector<ParameterSpec> mine = specs;
    mine[0].shape[0] = mine[1].shape[0] = rows;
    mine[0].shard = mine[1].shard = {0, row, 5};
    mine[3].shape[1] = columns;
    mine[3].shard = {1, column, 7};
    return mine;
  };
  for (const auto& mine : {parts(2, 0, 3, 0), parts(3, 2, 4, 3)}) {
    ParameterStore store(mine, ParameterStore::Arenas::values);
    CHECK(model::load_hf_weights(folder.path(), store, of_tied_decoder()).unused.empty());
    for (const ParameterSpec& spec : mine) {
      const std::vector<float> all = values_of(whole, spec.name), part = values_of(store, spec.name);
      const core::ShardRuns runs = core::runs_of(spec.shape, spec.shard);
      bool same = true;
      for (std::size_t i = 0; i < part.size(); ++i) {
        const auto length = static_cast<std::size_t>(runs.length);
        same &=
            part[i] ==
            all[static_cast<std::size_t>(runs.first) + i / length * static_cast<std::size_t>(runs.stride) + i % length];
      }
      CHECK(same);
    }
  }

  const auto mine = parts(3, 2, 4, 3);
  tensors["cls.predictions.decoder.weight"].second[8] += 1;  // row 2
  write(folder / "model.safetensors", tensors);
  CHECK(load_failure(folder, mine, of_tied_decoder()).says("a decoder of its own"));
  CHECK(load_failure(folder, parts(2, 0, 3, 0), of_tied_decoder()).code == -1);  // whose rows are as they should be
  tensors.erase("cls.predictions.decoder.weight");
  tensors[mine[3].name].second[2 * 7 + 5] = INFINITY;
  write(folder / "model.safetensors", tensors);
  CHECK(load_failure(folder, mine).says("at element 19"));
  tensors[mine[3].name] = {{4, 4}, std::vector<float>(16)};
  write(folder / "model.safetensors", tensors);
  CHECK(load_failure(folder, mine).says("make it (4, 7)"));
}
