#include "numbered_rows.hpp"

#include <string>

#include "bert_hpc/tokenize/tokenizer.hpp"

namespace bert_hpc::prep {

using tokenize::WordNumbers;

namespace {

/// The tokens of each word, by its number.
class TokensOfWords {
 public:
  TokensOfWords(const WordNumbers& words, const tokenize::Tokenizer& tokenizer) {
    const auto encoder = tokenizer.encoder();
    begins_.reserve(static_cast<std::size_t>(words.size()) + 1);
    for (std::int32_t number = 0; number < words.size(); ++number) {
      begins_.push_back(static_cast<std::int64_t>(ids_.size()));
      if (number < WordNumbers::first_word) {
        const tokenize::SpecialRole& role = tokenize::special_roles[static_cast<std::size_t>(number)];
        ids_.push_back(tokenizer.special_ids().*role.id);
      } else {
        encoder->encode_word(words.word(number), ids_);
      }
    }
    begins_.push_back(static_cast<std::int64_t>(ids_.size()));
  }

  void append(const std::vector<std::int32_t>& numbers, std::vector<std::int32_t>& ids) const {
    for (const std::int32_t number : numbers) {
      const auto word = static_cast<std::size_t>(number);
      ids.insert(ids.end(), ids_.begin() + begins_[word], ids_.begin() + begins_[word + 1]);
    }
  }

 private:
  std::vector<std::int64_t> begins_;  // (numbers + 1)
  std::vector<std::int32_t> ids_;
};

}  // namespace

NumberedRows::NumberedRows(const PrepConfig& config, const Staging& staging, comm::Communicator& group)
    : group_(group),
      pairs_(config.has_second_text()),
      has_negatives_(!config.source.negatives.empty()),
      prompts_(config.source),
      trainer_(config.tokenizer_kind().trainer(config.tokenizer.settings, config.ends_texts())),
      spool_(staging.file("words-" + std::to_string(group.rank()))) {}

void NumberedRows::add(const SourceRow& row, RowStatus status) {
  if (!is_kept(status) || TokenStore::owner(row.index, group_.size()) != group_.rank()) return;
  const auto add_text = [this](std::string_view text) {
    numbers_.clear();
    trainer_->read(text, counts_.words(), numbers_);
    spool_.add(numbers_);
    text_bytes_ += static_cast<std::int64_t>(text.size());
  };
  const PromptedTexts texts = prompts_.add(row);
  add_text(texts.text);
  if (pairs_) add_text(texts.text_pair);
  if (!has_negatives_) return;
  numbers_.assign(1, static_cast<std::int32_t>(texts.negatives.size()));
  spool_.add(numbers_);
  for (const std::string_view text : texts.negatives) add_text(text);
}

/// Calls visit(row, split) for each row of this rank, with its words in numbers_, pair_numbers_ and negatives_.
template <class Visit>
void NumberedRows::each(const RowTable& table, const Visit& visit) {
  spool_.rewind();
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    const RowStatus status = table.status[static_cast<std::size_t>(row)];
    if (!is_kept(status) || TokenStore::owner(row, group_.size()) != group_.rank()) continue;
    numbers_.clear();
    pair_numbers_.clear();
    spool_.read(numbers_);
    if (pairs_) spool_.read(pair_numbers_);
    if (has_negatives_) read_negatives();
    visit(row, status);
  }
}

void NumberedRows::read_negatives() {
  count_.clear();
  spool_.read(count_);
  negatives_.resize(static_cast<std::size_t>(count_.front()));
  for (std::vector<std::int32_t>& text : negatives_) {
    text.clear();
    spool_.read(text);
  }
}

tokenize::WordCounts& NumberedRows::count(const RowTable& table) {
  const bool any_training = table.has_training_rows();
  each(table, [&](std::int64_t, RowStatus split) {
    if (any_training && split != RowStatus::train) return;
    counts_.add_all(numbers_);
    counts_.add_all(pair_numbers_);
    for (const std::vector<std::int32_t>& text : negatives_) counts_.add_all(text);
  });
  return counts_;
}

void NumberedRows::tokenize(const RowTable& table, const tokenize::Tokenizer& tokenizer, RowTokenizer& rows) {
  const TokensOfWords tokens(counts_.words(), tokenizer);
  std::vector<std::int32_t> ids, pair_ids;
  std::vector<std::vector<std::int32_t>> negatives;
  each(table, [&](std::int64_t row, RowStatus split) {
    ids.clear();
    pair_ids.clear();
    tokens.append(numbers_, ids);
    tokens.append(pair_numbers_, pair_ids);
    negatives.resize(negatives_.size());
    for (std::size_t i = 0; i < negatives.size(); ++i) {
      negatives[i].clear();
      tokens.append(negatives_[i], negatives[i]);
    }
    rows.add_ids(row, split, ids, pair_ids, negatives);
  });
  rows.count_text(text_bytes_);
}

}  // namespace bert_hpc::prep
