#include "bert_hpc/data/shard_content.hpp"

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::data {
namespace {

void read_parts(const ShardFile& file, const ShardLimits& limits, const ShardParts& parts, ShardContent& content) {
  const std::vector<std::int64_t> offsets = file.read_offsets();
  content.lengths.resize(offsets.size() - 1);
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
    content.lengths[s] = static_cast<std::int32_t>(offsets[s + 1] - offsets[s]);
  }
  const bool has_words = limits.task->has_words();
  if (has_words) content.words = file.read_words(offsets);
  const bool may_lack = limits.task->has_text_rows();
  const bool has_labels = limits.task->has_labels() && (file.info().labelled || !may_lack);
  if (limits.labels && has_labels) {
    content.labels = file.read_labels(has_words ? content.words.offsets : offsets);
  }
  if (limits.task->has_answers()) content.contexts = file.read_contexts(offsets);
  if (limits.task->has_groups()) content.groups = file.read_groups();
  if (parts.source_index) content.source_index = file.read_source_index();
  if (!parts.tokens) return;
  content.tokens.ids.resize(static_cast<std::size_t>(file.info().tokens));
  content.tokens.types.resize(file.has_token_types() ? content.tokens.ids.size() : 0);
  file.read_tokens(0, content.tokens.ids, content.tokens.types);
}

}  // namespace

ShardContent read_content(const std::string& path, const ShardLimits& limits, const ShardParts& parts) {
  ShardContent content;
  try {
    const ShardFile file = ShardFile::open(path, limits, parts.verified);
    content.info = file.info();
    content.task = file.info().task->name;
    content.special_ids = file.special_ids();
    content.has_types = file.has_token_types();
    read_parts(file, limits, parts, content);
    content.bytes_read = file.bytes_read();
    content.seal = io::seal_text(path, core::ExitCode::data);
  } catch (const core::Error& error) {
    content = {};
    content.problem = error.what();
  }
  return content;
}

}  // namespace bert_hpc::data
