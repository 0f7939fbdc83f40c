// DeBERTa's config.json with few buckets, whose other numbers a test changes.
#pragma once

#include "bert_hpc/model/hf_config.hpp"

namespace bert_hpc::test {

/// Distances of five tokens and more share buckets.
inline model::ModelConfig deberta_config() {
  return model::parse_hf_config(
      R"({"model_type": "deberta-v2", "relative_attention": true, "position_biased_input": false, "position_buckets": 8,
          "share_att_key": true, "norm_rel_ebd": "layer_norm", "pos_att_type": "p2c|c2p"})",
      "x");
}

}  // namespace bert_hpc::test
