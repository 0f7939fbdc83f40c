// Truncation follows the "longest_first" of Hugging Face's tokenizers, down to who gets the odd place.
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

SequenceMaker::SequenceMaker(const PrepConfig& config, const tokenize::Vocabulary& vocabulary)
    : vocabulary_(vocabulary),
      encoder_(vocabulary, config.text_form()),
      max_tokens_(config.tokenizer.max_tokens),
      pairs_(config.has_pairs()),
      packs_(config.packs()) {}

SequenceMaker::Made SequenceMaker::make(std::string_view text, std::string_view text_pair,
                                        std::vector<std::int32_t>& ids) {
  ids.clear();
  if (packs_) {
    encoder_.encode(text, ids);
    return {static_cast<std::int64_t>(ids.size()), false};
  }
  const tokenize::SpecialTokens& special = vocabulary_.special();
  ids.push_back(special.cls);
  encoder_.encode(text, ids);
  const auto first = static_cast<std::int64_t>(ids.size()) - 1;
  second_.clear();
  if (pairs_) encoder_.encode(text_pair, second_);
  const auto second = static_cast<std::int64_t>(second_.size());
  const PairLengths kept = pairs_ ? truncate_longest_first(first, second, max_tokens_ - 3)
                                  : PairLengths{std::min(first, max_tokens_ - 2), 0};
  ids.resize(static_cast<std::size_t>(kept.first) + 1);
  ids.push_back(special.sep);
  const Made made{kept.first + 2, kept.first + kept.second < first + second};
  if (pairs_) {
    ids.insert(ids.end(), second_.begin(), second_.begin() + kept.second);
    ids.push_back(special.sep);
  }
  return made;
}

}  // namespace bert_hpc::prep
