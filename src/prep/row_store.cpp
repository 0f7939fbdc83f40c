#include "bert_hpc/prep/row_store.hpp"

#include <cstring>
#include <utility>

#include "bert_hpc/data/shard_schema.hpp"
#include "bert_hpc/prep/word_rows.hpp"
#include "row_lengths.hpp"

namespace bert_hpc::prep {
namespace {

/// Zeros for the rows before `row` that have no number.
void fill(core::NarrowArray& counts, std::size_t row) {
  while (counts.size() < row) counts.push_back(0);
}

/// Whether the stored values are ids and lengths of a type, all below 65,536.
ValueWidth width_of(const PrepConfig& config, std::int64_t vocabulary_size) {
  const bool is_narrow = !config.has_answers() && !config.has_words() && !data::is_wide(vocabulary_size) &&
                         config.tokenizer.max_tokens < data::narrow_ids;
  return is_narrow ? ValueWidth::narrow : ValueWidth::whole;
}

/// Collective: of all ranks.
void open(comm::Communicator& group, TokenStore& store, core::NarrowArray& counts, core::NarrowArray& lengths,
          std::size_t rows) {
  fill(counts, rows);
  counts.shrink_to_fit();
  lengths.shrink_to_fit();
  store.finish_writing();
  if (group.size() > 1) {  // else they are those of all rows, in order
    const core::NarrowArray own = std::move(counts);
    counts = shared(group, own);
    lengths = shared(group, in_order_of_rows(counts, own, lengths));
  }
  store.open_for_reading(std::move(counts), std::move(lengths));
  counts = {};
  lengths = {};
}

}  // namespace

std::vector<std::int32_t> packed_texts(std::span<const std::string> texts) {
  std::vector<std::int32_t> numbers = {static_cast<std::int32_t>(texts.size())};
  std::string bytes;
  for (const std::string& text : texts) {
    numbers.push_back(static_cast<std::int32_t>(text.size()));
    bytes += text;
  }
  const std::size_t begin = numbers.size();
  numbers.resize(begin + (bytes.size() + sizeof(std::int32_t) - 1) / sizeof(std::int32_t));
  if (!bytes.empty()) std::memcpy(numbers.data() + begin, bytes.data(), bytes.size());
  return numbers;
}

std::vector<std::string> unpacked_texts(std::span<const std::int32_t> numbers) {
  std::vector<std::string> texts(static_cast<std::size_t>(numbers[0]));
  const char* at = reinterpret_cast<const char*>(numbers.data() + 1 + texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto size = static_cast<std::size_t>(numbers[i + 1]);
    texts[i].assign(at, size);
    at += size;
  }
  return texts;
}

namespace {

std::vector<std::string> needed_texts(const SourceRow& row, const PrepConfig& config) {
  if (config.has_words()) return {words_text(row.text)};
  if (config.names_rows()) return {std::string(row.id)};
  if (config.has_candidates()) {
    return {config.source.query_id.empty() ? std::string() : std::string(row.query), {}, std::string(row.id)};
  }
  return question_texts(row, config.has_labels());
}

}  // namespace

RowStore::RowStore(const PrepConfig& config, std::int64_t vocabulary_size, const std::string& directory,
                   comm::Communicator& group)
    : config_(config),
      group_(group),
      parts_{StoredParts(config, RowStatus::train), StoredParts(config, RowStatus::validation),
             StoredParts(config, RowStatus::test)},
      tokens_(directory, group.rank(), group.size(), width_of(config, vocabulary_size)) {
  if (config.stores_texts()) texts_.emplace(directory, group.rank(), group.size(), ValueWidth::whole, "texts");
}

void RowStore::add(const SourceRow& row, RowStatus split, tokenize::TokenSpan answer, const MadeRow& made) {
  const auto at = static_cast<std::size_t>(row.index);
  const StoredParts& parts = parts_[static_cast<std::size_t>(split)];
  fill(counts_, at);
  counts_.push_back(static_cast<std::int32_t>(made.sequences.size()));
  for (std::size_t i = 0; i < made.sequences.size(); ++i) {
    const MadeRow::Sequence& sequence = made.sequences[i];
    const std::span<const std::int32_t> ids = made.ids_of(i);
    numbers_.clear();
    if (parts.pairs) numbers_.push_back(static_cast<std::int32_t>(sequence.first));
    if (parts.answers) add_answer_numbers(made, sequence, answer, numbers_);
    numbers_.insert(numbers_.end(), ids.begin(), ids.end());
    if (parts.characters) add_characters(made, sequence, std::ssize(ids), numbers_);
    if (parts.words) add_word_numbers(made, i, numbers_);
    lengths_.push_back(static_cast<std::int32_t>(numbers_.size()));
    tokens_.append(numbers_);
  }
  if (!parts.texts) return;
  const std::vector<std::int32_t> texts = packed_texts(needed_texts(row, config_));
  fill(text_counts_, at);
  text_counts_.push_back(1);
  text_lengths_.push_back(static_cast<std::int32_t>(texts.size()));
  texts_->append(texts);
}

std::vector<std::string> RowStore::texts_of(std::int64_t row) const {
  const std::int64_t sequence = texts_->sequences_of(row).begin;
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(texts_->length(sequence)));
  texts_->read(sequence, row, 0, numbers);
  return unpacked_texts(numbers);
}

void RowStore::open_for_reading(std::int64_t rows) {
  open(group_, tokens_, counts_, lengths_, static_cast<std::size_t>(rows));
  if (texts_) open(group_, *texts_, text_counts_, text_lengths_, static_cast<std::size_t>(rows));
}

}  // namespace bert_hpc::prep
