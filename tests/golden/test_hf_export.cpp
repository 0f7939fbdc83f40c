// A folder written here must be one that Transformers wrote: the same tensors under the same names, in the same bytes,
// and a config.json that agrees key by key. check_export.py loads such a folder with Transformers itself.
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/model/hf_weights.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/model_parameters.hpp"
#include "golden/golden_file.hpp"

using namespace bert_hpc;

namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("a model read from Transformers and written again is the same model") {
  for (const std::string task :
       {"classification", "regression", "masked_lm", "multi_label", "question_answering", "distilbert_classification",
        "distilbert_question_answering", "token_classification", "distilbert_token_classification",
        "roberta_classification", "roberta_masked_lm", "roberta_token_classification", "electra_classification",
        "electra_masked_lm", "gpt2_classification", "gpt2_regression", "gpt2_token_classification", "gpt2_causal_lm"}) {
    INFO(task);
    const layers::HeadKind head = task.ends_with("masked_lm")              ? layers::masked_lm_head()
                                  : task.ends_with("causal_lm")            ? layers::causal_lm_head()
                                  : task.ends_with("question_answering")   ? layers::span_head()
                                  : task.ends_with("token_classification") ? layers::token_head()
                                                                           : layers::sequence_head();
    const test::GoldenFile golden(task);
    const model::ModelConfig config = model::read_hf_config(golden.model_folder());
    const model::ModelPlan plan = model::make_plan(config, head, config.num_labels());
    core::ParameterStore store(model::model_parameters(plan, model::whole(plan)), core::ParameterStore::Arenas::values);
    const model::LoadOptions options = {.family = config.family, .weights = plan.weights};
    CHECK(model::load_hf_weights(golden.model_folder(), store, options).unused.empty());

    const char* kept = std::getenv("BERT_HPC_KEEP_EXPORT");  // for check_export.py
    const std::filesystem::path base = kept != nullptr ? kept : std::filesystem::temp_directory_path();
    const std::filesystem::path folder = base / ("bert_hpc_export_" + task + "_" + std::to_string(::getpid()));
    model::save_hf_folder(folder, config, head, store);
    // Not as CHECK(a == b): Catch2 would print the bytes.
    const bool same = read_file(folder / "model.safetensors") == read_file(golden.model_folder() / "model.safetensors");
    CHECK(same);

    const auto theirs = nlohmann::json::parse(read_file(golden.model_folder() / "config.json"));
    const auto ours = nlohmann::json::parse(read_file(folder / "config.json"));
    for (const auto& [key, value] : theirs.items()) {
      // Left out here: what says nothing about the model (the version that wrote it, a decoder's cache, absent ids, a
      // head for choices that ELECTRA's file always describes).
      if (key == "transformers_version" || key == "use_cache" || key.starts_with("summary_") || value.is_null())
        continue;
      INFO(key);
      REQUIRE(ours.contains(key));
      CHECK(ours[key] == value);
    }
    if (kept == nullptr) std::filesystem::remove_all(folder);
  }
}
