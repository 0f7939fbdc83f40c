// Small shards for tests, right unless a test bends them.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "bert_hpc/data/shard_schema.hpp"
#include "bert_hpc/io/checksummed_file.hpp"
#include "bert_hpc/io/hdf5/hdf5.hpp"

namespace bert_hpc::test {

/// A directory that goes away with the test.
struct ScratchDirectory {
  std::filesystem::path path;
  ScratchDirectory() {
    static int number = 0;
    path = std::filesystem::temp_directory_path() /
           ("bert_hpc_test_data_" + std::to_string(::getpid()) + "_" + std::to_string(number++));
    std::filesystem::create_directories(path);
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string operator/(const std::string& name) const { return (path / name).string(); }
};

/// The content of a shard. Ids: 0 pad, 1 unknown, 2 cls, 3 sep, 4 mask, from 5 on words.
struct ShardContent {
  const tasks::Task* task = tasks::find("classification");
  std::string schema = data::shard_schema;
  std::string vocabulary_hash = "cafe";
  std::int64_t vocabulary_size = 1000;
  std::string label_names = R"(["a", "b", "c"])";
  std::string tokenizer = R"({"cls_id": 2, "sep_id": 3, "mask_id": 4, "pad_id": 0})";
  std::vector<std::int32_t> input_ids;
  std::vector<std::int64_t> offsets = {0};
  std::vector<std::uint8_t> token_type_ids;  // written where not empty
  std::vector<std::int32_t> classes;
  std::vector<float> values;                  // (sequences), or (sequences, 3)
  std::vector<std::uint8_t> sets;             // (sequences, 3)
  std::vector<std::int32_t> spans, contexts;  // (sequences, 2) each
  std::vector<std::int64_t> word_offsets = {0};
  std::vector<std::int32_t> words, word_classes;  // (words, 2) and (words)
  std::vector<std::int32_t> levels;
  std::vector<std::int64_t> groups;  // of two sequences each
  std::vector<std::int64_t> source_index;
  std::int64_t max_length = 0;

  std::int64_t sequences() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
};

inline ShardContent make_content(const tasks::Task* task, std::int64_t sequences, std::uint64_t seed,
                                 std::int64_t longest = 20, bool pairs = false) {
  std::mt19937_64 random(seed);
  ShardContent content;
  content.task = task;
  for (std::int64_t s = 0; s < sequences; ++s) {
    const auto length = 3 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(longest - 2));
    for (std::int64_t p = 0; p < length; ++p) {
      const bool ends = p + 1 == length;
      content.input_ids.push_back(p == 0 ? 2 : ends ? 3 : 5 + static_cast<std::int32_t>(random() % 995));
      if (pairs) content.token_type_ids.push_back(p > length / 2);
    }
    content.offsets.push_back(content.offsets.back() + length);
    content.max_length = std::max(content.max_length, length);
    if (task->labels == tasks::Labels::classes) content.classes.push_back(static_cast<std::int32_t>(random() % 3));
    if (task->has_values()) content.values.push_back(static_cast<float>(random() % 90) / 10.0f);
    for (int name = 0; name < 3 && task->labels == tasks::Labels::sets; ++name) content.sets.push_back(random() % 2);
    if (task->labels == tasks::Labels::spans) {
      const auto first = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(length));
      content.spans.insert(content.spans.end(), {first, static_cast<std::int32_t>(length) - 1});
      content.contexts.insert(content.contexts.end(), {1, static_cast<std::int32_t>(length) - 1});
    }
    for (std::int32_t token = 1; token + 1 < length && task->labels == tasks::Labels::words; ++token) {
      content.words.insert(content.words.end(), {token, token + 1});
      content.word_classes.push_back(static_cast<std::int32_t>(random() % 3));
    }
    content.word_offsets.push_back(std::ssize(content.word_classes));
    if (task->ranks_candidates()) content.levels.push_back(static_cast<std::int32_t>(random() % 2));
    if (task->has_text_rows()) {
      content.values.push_back(s % 2 == 0 ? static_cast<float>(random() % 10) / 10.0f : content.values.back());
    }
    if (task->has_groups() && s % 2 == 0) content.groups.push_back(s);
    content.source_index.push_back(1000 + s);
  }
  if (task->has_groups()) content.groups.push_back(sequences);
  if (!task->has_label_names()) content.label_names = "[]";
  return content;
}

/// Makes three label columns of a regression's values. Each sequence has the first or the last label.
inline ShardContent with_value_columns(ShardContent content) {
  constexpr float unknown = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> values;
  for (std::size_t s = 0; s < content.values.size(); ++s) {
    const float value = content.values[s];
    values.insert(values.end(),
                  {s % 3 == 0 ? unknown : value, s % 4 == 0 ? unknown : 2 * value, s % 3 == 1 ? unknown : value - 5});
  }
  content.values = std::move(values);
  content.label_names = R"(["a", "b", "c"])";
  return content;
}

/// Writes a shard. `bend` may change the open file before it is sealed; datasets named in `without` are left out.
inline void write_shard(const std::string& path, const ShardContent& c, const std::vector<std::string>& without = {},
                        const std::function<void(io::Hdf5File&)>& bend = {}) {
  namespace set = data::shard_dataset;
  namespace attribute = data::shard_attribute;
  auto file = io::Hdf5File::create(path, core::ExitCode::files, data::shard_user_block);
  const auto has = [&](const std::string& name) {
    return std::find(without.begin(), without.end(), name) == without.end();
  };
  const io::Storage storage{.chunk_rows = 256, .gzip = 1, .shuffle = true, .fletcher32 = true};
  if (has(set::input_ids)) file.write(set::input_ids, c.input_ids, {}, storage);
  if (has(set::offsets)) file.write(set::offsets, c.offsets, {}, storage);
  if (!c.token_type_ids.empty()) file.write(set::token_type_ids, c.token_type_ids, {}, storage);
  if (c.task->labels == tasks::Labels::classes && has(set::labels)) file.write(set::labels, c.classes, {}, storage);
  const bool has_values = c.task->has_values() || c.task->has_text_rows();
  if (has_values && has(set::labels)) {
    const bool columns = std::ssize(c.values) > c.sequences();
    file.write(set::labels, c.values,
               columns ? std::vector<std::int64_t>{c.sequences(), 3} : std::vector<std::int64_t>(), storage);
  }
  if (c.task->labels == tasks::Labels::sets && has(set::labels)) {
    file.write(set::labels, c.sets, {std::ssize(c.sets) / 3, 3}, storage);
  }
  if (c.task->labels == tasks::Labels::words) {
    if (has(set::labels)) file.write(set::labels, c.word_classes, {}, storage);
    if (has(set::word_tokens)) file.write(set::word_tokens, c.words, {std::ssize(c.word_classes), 2}, storage);
    if (has(set::word_offsets)) file.write(set::word_offsets, c.word_offsets, {}, storage);
  }
  if (c.task->labels == tasks::Labels::spans) {
    if (has(set::labels)) file.write(set::labels, c.spans, {c.sequences(), 2}, storage);
    if (has(set::context_tokens)) file.write(set::context_tokens, c.contexts, {c.sequences(), 2}, storage);
    file.write_attribute("/", attribute::unanswerable, std::int64_t{0});
  }
  if (c.task->ranks_candidates()) {
    if (has(set::labels)) file.write(set::labels, c.levels, {}, storage);
    file.write(set::texts, std::vector<std::uint8_t>{'?'});
    const std::vector<std::int64_t> offsets(static_cast<std::size_t>(3 * c.sequences() + 1), 0);  // empty texts
    if (has(set::text_offsets)) file.write(set::text_offsets, offsets);
  }
  if (c.task->has_groups() && has(set::groups)) file.write(set::groups, c.groups, {}, storage);
  if (has(set::source_index)) file.write(set::source_index, c.source_index, {}, storage);
  const auto text = [&](const char* name, const std::string& value) {
    if (has(name)) file.write_attribute("/", name, value);
  };
  const auto count = [&](const char* name, std::int64_t value) {
    if (has(name)) file.write_attribute("/", name, value);
  };
  text(attribute::schema, c.schema);
  text(attribute::task, c.task->name);
  text(attribute::vocabulary_hash, c.vocabulary_hash);
  text(attribute::label_names, c.label_names);
  text(attribute::tokenizer, c.tokenizer);
  count(attribute::vocabulary_size, c.vocabulary_size);
  count(attribute::sequences, c.sequences());
  count(attribute::tokens, static_cast<std::int64_t>(c.input_ids.size()));
  count(attribute::max_length, c.max_length);
  if (bend) bend(file);
  file.close();
  io::seal(path, "shard");
}

}  // namespace bert_hpc::test
