// Truncation follows the "longest_first" of Hugging Face's tokenizers, down to which text gets the odd token.
#include "bert_hpc/prep/sequence_maker.hpp"

#include <algorithm>

namespace bert_hpc::prep {

PairLengths truncate_longest_first(std::int64_t first, std::int64_t second, std::int64_t room) {
  if (first + second <= room) return {first, second};
  const bool first_is_longer = first > second;
  const std::int64_t shorter = std::min({first, second, room / 2});
  const std::int64_t longer = room - shorter;
  return first_is_longer ? PairLengths{longer, shorter} : PairLengths{shorter, longer};
}

SequenceMaker::SequenceMaker(const PrepConfig& config, const tokenize::Tokenizer& tokenizer)
    : encoder_(tokenizer.encoder()),
      max_tokens_(config.tokenizer.max_tokens),
      pairs_(config.has_pairs()),
      packs_(config.packs()) {
  const tokenize::SequenceTemplate& sequence = tokenizer.kind().sequence;
  const tokenize::SpecialIds& ids = tokenizer.special_ids();
  before_ = ids_of(sequence.before, ids);
  after_ = ids_of(pairs_ ? sequence.between : sequence.after, ids);
  if (pairs_) after_pair_ = ids_of(sequence.after_pair, ids);
  after_counts_ = !pairs_ || sequence.between_type == 0;
  second_counts_ = pairs_ && sequence.second_type == 0;
}

SequenceMaker::Made SequenceMaker::make(std::string_view text, std::string_view text_pair,
                                        std::vector<std::int32_t>& ids) {
  ids.clear();
  if (packs_) {
    encoder_->encode(text, ids);
    return {std::ssize(ids), false};
  }
  ids.assign(before_.begin(), before_.end());
  encoder_->encode(text, ids);
  const std::int64_t first = std::ssize(ids) - std::ssize(before_);
  second_.clear();
  if (pairs_) encoder_->encode(text_pair, second_);
  const std::int64_t second = std::ssize(second_);
  const std::int64_t room = max_tokens_ - std::ssize(before_) - std::ssize(after_) - std::ssize(after_pair_);
  const PairLengths kept = pairs_ ? truncate_longest_first(first, second, room) : PairLengths{std::min(first, room), 0};
  ids.resize(before_.size() + static_cast<std::size_t>(kept.first));
  std::int64_t of_type_0 = std::ssize(ids);
  ids.insert(ids.end(), after_.begin(), after_.end());
  if (after_counts_) of_type_0 = std::ssize(ids);
  ids.insert(ids.end(), second_.begin(), second_.begin() + kept.second);
  ids.insert(ids.end(), after_pair_.begin(), after_pair_.end());
  if (second_counts_) of_type_0 = std::ssize(ids);
  return {of_type_0, kept.first + kept.second < first + second};
}

}  // namespace bert_hpc::prep
