// What a shard says of the text that it was made from. Internal to the module.
#pragma once

#include "bert_hpc/data/shard_schema.hpp"
#include "bert_hpc/prep/prep_config.hpp"
#include "bert_hpc/prep/row_table.hpp"
#include "bert_hpc/tokenize/tokenizer.hpp"

namespace bert_hpc::prep {

/// All but the numbers of sequences and tokens, and whether there are texts.
data::ShardInfo shard_info(const PrepConfig& config, const RowTable& table, const tokenize::Tokenizer& tokenizer);

}  // namespace bert_hpc::prep
