// What shards of some tasks hold besides tokens and labels: contexts, words, texts, groups.
#include <algorithm>
#include <tuple>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/shard_file.hpp"

namespace bert_hpc::data {

using io::Dataset;
using Type = io::DatasetInfo::TypeClass;

namespace {

using std::to_string;

}  // namespace

void ShardFile::check_answers() {
  info_.unanswerable = file_.integer_attribute("/", shard_attribute::unanswerable);
  check_column(shard_dataset::context_tokens, {Type::integer, 4, true, {info_.sequences, 2}});
  if (info_.has_texts) checked_dataset(shard_dataset::token_characters, {Type::integer, 4, true, {info_.tokens, 2}});
}

/// Returns their number.
std::int64_t ShardFile::check_words() {
  check_column(shard_dataset::word_offsets, {Type::integer, 8, true, {info_.sequences + 1}});
  if (!file_.exists(shard_dataset::word_tokens)) fail(std::string("it has no dataset '/word_tokens'."));
  const std::vector<std::int64_t> extents = file_.dataset(shard_dataset::word_tokens).info().extents;
  const std::int64_t words = extents.empty() ? 0 : extents.front();
  check_column(shard_dataset::word_tokens, {Type::integer, 4, true, {words, 2}});
  return words;
}

void ShardFile::check_texts() {
  info_.has_texts = file_.exists(shard_dataset::texts);
  if (!info_.has_texts) return;
  for (const auto& [name, bytes, is_signed] :
       {std::tuple(shard_dataset::texts, 1, false), std::tuple(shard_dataset::text_offsets, 8, true)}) {
    if (!file_.exists(name)) fail(std::string("it has no dataset '") + name + "'.");
    const io::Dataset found = file_.dataset(name);
    const std::vector<std::int64_t>& extents = found.info().extents;
    checked_dataset(name, {Type::integer, bytes, is_signed, {extents.empty() ? 0 : extents.front()}});
  }
}

std::vector<std::int32_t> ShardFile::read_contexts(std::span<const std::int64_t> offsets) const {
  std::vector<std::int32_t> contexts(2 * (offsets.size() - 1));
  counted_dataset(shard_dataset::context_tokens).read_rows(0, contexts);
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
    const std::int64_t begin = contexts[2 * s], end = contexts[2 * s + 1], length = offsets[s + 1] - offsets[s];
    if (begin >= 0 && begin <= end && end <= length) continue;
    fail(where_sequence(static_cast<std::int64_t>(s)) + " has its context in tokens " + to_string(begin) + " to " +
         to_string(end) + "; it must lie within the sequence's " + to_string(length) + " tokens.");
  }
  return contexts;
}

Words ShardFile::read_words(std::span<const std::int64_t> offsets) const {
  Words words;
  words.offsets.resize(offsets.size());
  counted_dataset(shard_dataset::word_offsets).read_rows(0, words.offsets);
  const io::Dataset dataset = counted_dataset(shard_dataset::word_tokens);
  const std::int64_t count = dataset.info().extents.front();
  const bool ascend = std::is_sorted(words.offsets.begin(), words.offsets.end());
  if (!ascend || words.offsets.front() != 0 || words.offsets.back() != count) {
    fail("'/word_offsets' do not ascend from 0 to " + to_string(count) + ", the number of words.");
  }
  words.tokens.resize(static_cast<std::size_t>(2 * count));
  dataset.read_rows(0, words.tokens);
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
    std::int64_t end = 0;
    for (std::int64_t w = words.offsets[s]; w < words.offsets[s + 1]; ++w) {
      const std::int32_t* const word = words.tokens.data() + 2 * w;
      const std::int32_t last = std::max(word[1], word[0] + 1);
      if (word[0] < end || word[1] < word[0] || last > offsets[s + 1] - offsets[s]) {
        fail(where_sequence(static_cast<std::int64_t>(s)) + ": word " + to_string(w - words.offsets[s]) +
             " is made of tokens " + to_string(word[0]) + " to " + to_string(word[1]) +
             "; words follow each other within the sequence's " + to_string(offsets[s + 1] - offsets[s]) + " tokens.");
      }
      end = last;
    }
  }
  return words;
}

void ShardFile::check_groups() {
  if (!file_.exists(shard_dataset::groups)) fail(std::string("it has no dataset '") + shard_dataset::groups + "'.");
  const std::vector<std::int64_t> extents = file_.dataset(shard_dataset::groups).info().extents;
  check_column(shard_dataset::groups, {Type::integer, 8, true, {extents.empty() ? 0 : extents.front()}});
  if (extents.front() < 1 || extents.front() > info_.sequences + 1) {
    fail("'/groups' have " + std::to_string(extents.front()) + " elements; " + std::to_string(info_.sequences) +
         " sequences are in at most as many groups.");
  }
}

std::vector<std::int64_t> ShardFile::read_groups() const {
  const Dataset dataset = counted_dataset(shard_dataset::groups);
  std::vector<std::int64_t> groups(static_cast<std::size_t>(dataset.info().extents.front()));
  dataset.read_rows(0, groups);
  bool good = groups.front() == 0 && groups.back() == info_.sequences;
  for (std::size_t g = 0; g + 1 < groups.size(); ++g) good = good && groups[g] < groups[g + 1];
  if (!good) {
    fail("'/groups' must ascend from 0 to " + std::to_string(info_.sequences) + ", the number of sequences.");
  }
  return groups;
}

}  // namespace bert_hpc::data
