#include "bert_hpc/prep/row_store.hpp"

#include <cstring>
#include <utility>

#include "bert_hpc/prep/word_rows.hpp"
#include "row_lengths.hpp"

namespace bert_hpc::prep {
namespace {

/// Collective: of all ranks.
void open(comm::Communicator& group, TokenStore& store, std::vector<std::int32_t>& counts,
          std::vector<std::int32_t>& lengths) {
  store.finish_writing();
  if (group.size() > 1) {  // else they are those of all rows, in order
    const std::vector<std::int32_t> own = counts;
    share(group, counts);
    lengths = in_order_of_rows(counts, own, lengths);
    share(group, lengths);
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
  if (config.has_candidates()) {
    return {config.source.query_id.empty() ? std::string() : std::string(row.query), {}, std::string(row.id)};
  }
  return question_texts(row, config.has_labels());
}

}  // namespace

RowStore::RowStore(const PrepConfig& config, const RowTable& table, const std::string& directory,
                   comm::Communicator& group)
    : config_(config),
      table_(table),
      group_(group),
      tokens_(directory, group.rank(), group.size()),
      counts_(static_cast<std::size_t>(table.rows()), 0) {
  lengths_.reserve(counts_.size() / static_cast<std::size_t>(group.size()));  // most rows are one sequence
  if (config.kind().row_texts == 0) return;
  texts_.emplace(directory, group.rank(), group.size(), "texts");
  text_counts_.resize(counts_.size(), 0);
}

void RowStore::add(const SourceRow& row, const MadeRow& made) {
  const auto at = static_cast<std::size_t>(row.index);
  const StoredParts parts(config_, table_.status[at]);
  counts_[at] = static_cast<std::int32_t>(made.sequences.size());
  for (std::size_t i = 0; i < made.sequences.size(); ++i) {
    const MadeRow::Sequence& sequence = made.sequences[i];
    const std::span<const std::int32_t> ids = made.ids_of(i);
    numbers_.clear();
    if (parts.pairs) numbers_.push_back(static_cast<std::int32_t>(sequence.first));
    const tokenize::TokenSpan answer = table_.answers.empty() ? no_answer : table_.answers[at];
    if (parts.answers) add_answer_numbers(made, sequence, answer, numbers_);
    numbers_.insert(numbers_.end(), ids.begin(), ids.end());
    if (parts.characters) add_characters(made, sequence, std::ssize(ids), numbers_);
    if (parts.words) add_word_numbers(made, i, numbers_);
    lengths_.push_back(static_cast<std::int32_t>(numbers_.size()));
    tokens_.append(numbers_);
  }
  if (!parts.texts) return;
  const std::vector<std::int32_t> texts = packed_texts(needed_texts(row, config_));
  text_counts_[at] = 1;
  text_lengths_.push_back(static_cast<std::int32_t>(texts.size()));
  texts_->append(texts);
}

std::vector<std::string> RowStore::texts_of(std::int64_t row) const {
  return unpacked_texts(texts_->values(texts_->sequences_of(row).begin, row));
}

void RowStore::open_for_reading() {
  open(group_, tokens_, counts_, lengths_);
  if (texts_) open(group_, *texts_, text_counts_, text_lengths_);
}

}  // namespace bert_hpc::prep
