#include "shard_facts.hpp"

#include <nlohmann/json.hpp>

#include "bert_hpc/core/json.hpp"

namespace bert_hpc::prep {

data::ShardInfo shard_info(const PrepConfig& config, const RowTable& table, const tokenize::Tokenizer& tokenizer) {
  data::ShardInfo info;
  info.task = &config.kind();
  info.vocabulary_hash = tokenizer.vocabulary_hash();
  info.vocabulary_size = tokenizer.size();
  info.label_names = table.label_names;
  info.labelled = config.has_labels() || config.pairs_documents();
  if (config.pairs_documents()) info.label_names = class_names(config.pair_kind());
  info.label_column = config.label_column();
  for (const AnswerCounts& split : table.answer_counts()) info.unanswerable += split.unanswerable;
  nlohmann::json settings = {{"type", tokenizer.kind().name}, {"max_tokens", config.tokenizer.max_tokens}};
  for (const tokenize::SpecialRole& role : tokenize::special_roles) {
    settings[data::special_id_key(role)] = tokenizer.special_ids().*role.id;
  }
  settings[data::text_end_key] = tokenizer.text_end();
  for (const auto& [name, value] : tokenizer.settings()) settings[name] = value;
  if (!config.source.prompt.empty()) settings[data::prompt_key] = config.source.prompt;
  if (!config.source.prompt_pair.empty()) settings[data::prompt_pair_key] = config.source.prompt_pair;
  if (config.tokenizer.doc_stride) {
    settings["doc_stride"] = *config.tokenizer.doc_stride;
    settings["stride"] = config.tokenizer.stride;
  }
  info.tokenizer = core::json_text(settings);
  return info;
}

}  // namespace bert_hpc::prep
