// Appends to chunked, compressed datasets, then adds a checksum to the file: readers check it before HDF5 opens the
// file.
#include "bert_hpc/data/shard_writer.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include "bert_hpc/io/checksummed_file.hpp"

namespace bert_hpc::data {
namespace {

// Small enough to read a few sequences without waste, large enough to compress well: 128 KiB of ids a chunk.
constexpr std::int64_t token_chunk = 65536, sequence_chunk = 8192;

/// `expected`: rows of the dataset, where they are known. A chunk takes its whole size in the file, filled or not.
io::Storage storage(std::int64_t rows, std::int64_t expected, Compression compression) {
  const bool zips = compression == Compression::gzip;
  return {.chunk_rows = expected > 0 ? std::min(rows, expected) : rows,
          .gzip = zips ? 1 : 0,
          .shuffle = zips,
          .fletcher32 = true};
}

using NarrowIds = io::Appender<std::uint16_t>;
using WideIds = io::Appender<std::int32_t>;

std::variant<NarrowIds, WideIds> ids_appender(io::Hdf5File& file, std::int64_t vocabulary_size,
                                              const io::Storage& storage) {
  if (is_wide(vocabulary_size)) return WideIds(file, shard_dataset::input_ids, storage);
  return NarrowIds(file, shard_dataset::input_ids, storage);
}

}  // namespace

ShardWriter::ShardWriter(const std::string& path, ShardInfo info, bool token_types, Compression compression)
    : path_(path),
      info_(std::move(info)),
      token_types_(token_types),
      per_token_(storage(token_chunk, info_.tokens, compression)),
      per_sequence_(storage(sequence_chunk, info_.sequences > 0 ? info_.sequences + 1 : 0, compression)),
      file_(io::Hdf5File::create(path, core::ExitCode::files, shard_user_block)),
      ids_(ids_appender(file_, info_.vocabulary_size, per_token_)),
      offsets_(file_, shard_dataset::offsets, per_sequence_),
      source_index_(file_, shard_dataset::source_index, per_sequence_) {
  if (token_types_) types_.emplace_back(file_, shard_dataset::token_type_ids, per_token_);
  labels_.emplace(file_, info_.labelled ? info_.task->labels : tasks::Labels::none, std::ssize(info_.label_names),
                  info_.task->has_words() ? per_token_ : per_sequence_);
  if (info_.task->has_answers()) {
    answers_.push_back({.context = {file_, shard_dataset::context_tokens, per_sequence_, 2}});
    if (info_.has_texts) {
      answers_.back().characters.emplace_back(file_, shard_dataset::token_characters, per_token_, 2);
    }
  }
  if (info_.task->has_words()) {
    words_.push_back({.tokens = {file_, shard_dataset::word_tokens, per_token_, 2},
                      .offsets = {file_, shard_dataset::word_offsets, per_sequence_}});
    words_.back().offsets.append(std::int64_t{0});
  }
  if (info_.has_texts) texts_.emplace(file_, storage(token_chunk, 0, compression), per_sequence_);
  if (info_.task->has_groups()) groups_.emplace_back(file_, shard_dataset::groups, per_sequence_);
  info_.sequences = info_.tokens = info_.max_length = 0;
  offsets_.append(std::int64_t{0});
}

void ShardWriter::add(std::span<const std::int32_t> ids, std::span<const std::uint8_t> token_types, const Label& label,
                      std::int64_t source_index, const SequenceParts& parts) {
  core::require(token_types.size() == (token_types_ ? ids.size() : 0), "one token type for each token");
  const auto length = static_cast<std::int64_t>(ids.size());
  if (auto* const narrow = std::get_if<NarrowIds>(&ids_)) {
    narrow_.resize(ids.size());
    std::uint32_t all_bits = 0;
    std::transform(ids.begin(), ids.end(), narrow_.begin(), [&all_bits](std::int32_t id) {
      all_bits |= static_cast<std::uint32_t>(id);
      return static_cast<std::uint16_t>(id);
    });
    core::require(all_bits < narrow_ids, "shard: an id beyond the vocabulary");
    narrow->append(narrow_);
  } else {
    std::get<WideIds>(ids_).append(ids);
  }
  for (auto& types : types_) types.append(token_types);
  labels_->append(label);
  source_index_.append(source_index);
  info_.sequences += 1;
  info_.tokens += length;
  info_.max_length = std::max(info_.max_length, length);
  offsets_.append(info_.tokens);
  add_parts(parts);
}

void ShardWriter::add_parts(const SequenceParts& parts) {
  for (Answers& answers : answers_) {
    answers.context.append(std::span<const std::int32_t>(std::array{parts.context_begin, parts.context_end}));
    for (auto& characters : answers.characters) characters.append(parts.characters);
  }
  for (Words& words : words_) {
    words.tokens.append(parts.words);
    words.count += std::ssize(parts.words) / 2;
    words.offsets.append(words.count);
  }
  for (auto& groups : groups_) {
    if (parts.starts_group) groups.append(info_.sequences - 1);
  }
  if (texts_ && parts.starts_row) texts_->append(parts.texts);
}

void ShardWriter::add_tokenizer(const std::string& text) {
  constexpr std::int64_t chunk = std::int64_t{1} << 20;
  io::Appender<std::uint8_t> bytes(file_, shard_dataset::tokenizer,
                                   storage(chunk, std::ssize(text), Compression::gzip));
  bytes.append(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
  bytes.finish();
}

void ShardWriter::finish() {
  std::visit([](auto& ids) { ids.finish(); }, ids_);
  for (auto& types : types_) types.finish();
  labels_->finish();
  offsets_.finish();
  source_index_.finish();
  for (Answers& answers : answers_) {
    answers.context.finish();
    for (auto& characters : answers.characters) characters.finish();
    file_.write_attribute("/", shard_attribute::unanswerable, info_.unanswerable);
  }
  for (Words& words : words_) {
    words.tokens.finish();
    words.offsets.finish();
  }
  if (texts_) texts_->finish();
  for (auto& groups : groups_) {
    groups.append(info_.sequences);
    groups.finish();
  }
  namespace attribute = shard_attribute;
  // Attributes come last, so that readers can check them and leave blocks of data to their own checksums.
  file_.flush();
  const auto tail = static_cast<std::int64_t>(std::filesystem::file_size(path_));
  file_.write_attribute("/", attribute::schema, shard_schema);
  file_.write_attribute("/", attribute::task, info_.task->name);
  file_.write_attribute("/", attribute::vocabulary_hash, info_.vocabulary_hash);
  file_.write_attribute("/", attribute::vocabulary_size, info_.vocabulary_size);
  file_.write_attribute("/", attribute::label_names, label_names_to_json(info_.label_names));
  if (!info_.label_column.empty()) file_.write_attribute("/", attribute::label_column, info_.label_column);
  file_.write_attribute("/", attribute::tokenizer, info_.tokenizer);
  if (!info_.tokenizer_hash.empty()) file_.write_attribute("/", attribute::tokenizer_hash, info_.tokenizer_hash);
  file_.write_attribute("/", attribute::sequences, info_.sequences);
  file_.write_attribute("/", attribute::tokens, info_.tokens);
  file_.write_attribute("/", attribute::max_length, info_.max_length);
  file_.close();
  io::seal(path_, "shard", core::ExitCode::files, tail);
}

}  // namespace bert_hpc::data
