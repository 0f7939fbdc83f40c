// Which special tokens stand around the texts of a sequence. The first text and the tokens before it have token type 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bert_hpc/tokenize/special_ids.hpp"

namespace bert_hpc::tokenize {

/// A text alone is: before, text, after. A pair is: before, first text, between, second text, after_pair.
struct SequenceTemplate {
  using Roles = std::vector<std::int32_t SpecialIds::*>;
  Roles before, after, between, after_pair;
  std::uint8_t second_type = 0;     ///< token type of the second text and of `after_pair`
  std::int64_t second_between = 0;  ///< tokens of `between`, the last ones, that have the second text's type

  bool operator==(const SequenceTemplate&) const = default;

  std::int64_t special_tokens(bool pair) const {
    return std::ssize(before) + (pair ? std::ssize(between) + std::ssize(after_pair) : std::ssize(after));
  }
};

/// RoBERTa's: "<s> a </s>" and "<s> a </s></s> b </s>", all of token type 0.
const SequenceTemplate& roberta_sequence();

/// "[CLS] a [SEP] b [SEP]", or of a text alone "[CLS] a [SEP]".
std::string describe(const SequenceTemplate& sequence, bool pair);

/// Ids of the tokens of these roles. Throws Error(internal) if the tokenizer lacks one.
std::vector<std::int32_t> ids_of(const SequenceTemplate::Roles& roles, const SpecialIds& ids);

}  // namespace bert_hpc::tokenize
