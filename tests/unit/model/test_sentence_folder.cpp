#include "bert_hpc/model/sentence_folder.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>

#include "unit/model/files.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

namespace {

void write(const std::filesystem::path& folder, const std::string& name, const std::string& text) {
  std::filesystem::create_directories((folder / name).parent_path());
  std::ofstream(folder / name) << text;
}

const std::string transformer = R"({"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"})",
                  pooling = R"({"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"})";

}  // namespace

TEST_CASE("modules of sentence-transformers are read as they are written") {
  for (const char* word : {"mean", "cls", "max", "last"}) {
    const test::ScratchFolder folder;
    CHECK_FALSE(model::read_sentence_modules(folder.path()).has_value());
    const model::SentenceModules modules{
        .pooling = word, .normalize = std::string(word) != "max", .dimensions = 48, .max_tokens = 128};
    for (const auto& [name, text] : model::sentence_files(modules)) write(folder.path(), name, text);
    CHECK(model::read_sentence_modules(folder.path()) == modules);
  }
}

TEST_CASE("a folder of sentence-transformers says how its embeddings are compared") {
  const auto files = model::sentence_files({.pooling = "mean", .similarity = "dot", .dimensions = 48});
  const auto found = std::find_if(files.begin(), files.end(),
                                  [](const auto& file) { return file.first == "config_sentence_transformers.json"; });
  REQUIRE(found != files.end());
  CHECK_THAT(found->second, ContainsSubstring("\"similarity_fn_name\": \"dot\""));
  CHECK(std::none_of(files.begin(), files.end(),
                     [](const auto& file) { return file.second.find("Normalize") != std::string::npos; }));
}

TEST_CASE("prompts of a folder are read as they are written, and broken ones are refused") {
  const test::ScratchFolder folder;
  CHECK(model::read_sentence_prompts(folder.path()) == model::SentencePrompts());
  for (const char* const usual : {"", "query"}) {
    const model::SentencePrompts prompts{.texts = {{"document", ""}, {"query", "query: "}}, .default_name = usual};
    for (const auto& [name, text] : model::sentence_files({.pooling = "mean", .dimensions = 8, .prompts = prompts})) {
      write(folder.path(), name, text);
    }
    CHECK(model::read_sentence_prompts(folder.path()) == prompts);
  }
  write(folder.path(), "config_sentence_transformers.json", R"({"__version__": {"pytorch": "1.8.1"}})");
  CHECK(model::read_sentence_prompts(folder.path()) == model::SentencePrompts());
  for (const char* const broken : {R"({"prompts": ["query: "]})", R"({"prompts": {"query": 1}})"}) {
    write(folder.path(), "config_sentence_transformers.json", broken);
    CHECK_THROWS_WITH(model::read_sentence_prompts(folder.path()),
                      ContainsSubstring("prompts must be an object of texts"));
  }
}

TEST_CASE("modules that are not computed, and broken ones, are refused by name") {
  const test::ScratchFolder folder;
  const auto read = [&](const std::string& modules, const std::string& config) {
    write(folder.path(), "modules.json", modules);
    write(folder.path(), "1_Pooling/config.json", config);
    return model::read_sentence_modules(folder.path());
  };
  const std::string both = "[" + transformer + ", " + pooling + "]", mean = R"({"pooling_mode_mean_tokens": true})";
  CHECK(read(both, mean)->pooling == "mean");
  CHECK_FALSE(read(both, mean)->normalize);
  CHECK(read(both, R"({"embedding_dimension": 8, "pooling_mode": "lasttoken"})")->pooling == "last");
  CHECK(read(both, R"({"embedding_dimension": 8, "pooling_mode": "lasttoken"})")->dimensions == 8);
  CHECK_THROWS_WITH(read(both, R"({"pooling_mode": ["mean", "max"]})"),
                    ContainsSubstring("pools by [\"mean\",\"max\"]"));
  const std::string dense = R"({"idx":2,"name":"2","path":"2_Dense","type":"sentence_transformers.models.Dense"})";
  CHECK_THROWS_WITH(read("[" + transformer + ", " + pooling + ", " + dense + "]", mean),
                    ContainsSubstring("2_Dense") && ContainsSubstring("is not computed here"));
  CHECK_THROWS_WITH(read(both, R"({"pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": true})"),
                    ContainsSubstring("pools by pooling_mode_max_tokens and pooling_mode_mean_tokens"));
  CHECK_THROWS_WITH(read(both, R"({"pooling_mode_weightedmean_tokens": true})"),
                    ContainsSubstring("pools by pooling_mode_weightedmean_tokens"));
  CHECK_THROWS_WITH(read("{}", mean), ContainsSubstring("is no JSON array of modules"));
  CHECK_THROWS_WITH(read("[" + transformer + "]", mean), ContainsSubstring("names no pooling"));
  CHECK_THROWS_WITH(read("[3]", mean), ContainsSubstring("the module 3"));
  CHECK_THROWS_WITH(read(both, "["), ContainsSubstring("config.json"));
  const std::string outside = R"({"path":"../1_Pooling","type":"sentence_transformers.models.Pooling"})";
  CHECK_THROWS_WITH(read("[" + outside + "]", mean), ContainsSubstring("is not computed here"));
}
