// The model's configuration, completed with the facts of the shards.
#include "app/engine/model_from_config.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/model/hf_config.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace bert_hpc;

TEST_CASE("shards with another padding token are another vocabulary's where positions begin behind it") {
  config::Config input;
  input.task.name = "masked_lm";
  data::ShardInfo shards;
  shards.vocabulary_size = 100;
  const auto finalized = [&](const char* family, std::int32_t pad) {
    return app::finalize(input, model::default_config(family), shards, {.pad = pad}).pad_token_id;
  };
  input.model.pretrained = "folder";
  CHECK(finalized("roberta", 1) == 1);
  CHECK_THROWS_WITH(finalized("roberta", 0),
                    ContainsSubstring("another vocabulary than that of 'folder': their padding token has the id 0, the "
                                      "model's 1") &&
                        ContainsSubstring("[tokenizer] vocabulary"));
  CHECK(finalized("bert", 3) == 3);
  input.model.pretrained.reset();
  CHECK(finalized("roberta", 0) == 0);
}
