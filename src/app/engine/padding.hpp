// data.padding: how long sequences get, and what a plan that knows no micro-batches yet expects of it. Pure.
#pragma once

#include "bert_hpc/config/config.hpp"
#include "bert_hpc/data/batch_plan.hpp"
#include "bert_hpc/data/shard_reader.hpp"
#include "bert_hpc/model/model_config.hpp"

namespace bert_hpc::app {

/// How the sequences of this data set are padded. With "max" to the tokenizer.max_tokens of its shards, where they do
/// not know it to the model's max_position_embeddings, and never beyond these, but at least to the longest sequence.
/// Throws Error(data) on malformed settings.
data::PaddingOptions padding_options(const config::Config& input, const model::ModelConfig& model,
                                     const data::ShardReader& reader);

/// Expected computed tokens of a sequence in micro-batches of `sequences` sequences. Without padding and with sorted
/// sequences the mean length (for these a lower bound); of random micro-batches the mean over such of the data set.
double mean_rows(const data::PaddingOptions& padding, std::span<const std::int32_t> lengths, std::int64_t sequences);

/// The same in micro-batches of the size that the input states, or else of `usual` tokens, on `replicas` replicas.
double mean_rows(const config::Config& input, const data::PaddingOptions& padding, const data::ShardReader& reader,
                 int replicas, std::int64_t usual);

/// For the banner and error messages: "to the longest of each micro-batch", "to 384 tokens"; "" without padding.
std::string padding_text(const data::PaddingOptions& padding);

}  // namespace bert_hpc::app
