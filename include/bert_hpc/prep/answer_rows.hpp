// Answers of questions between the text and the shards. What a sequence and a row have besides
// tokens goes through the scratch files as numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/data/shard_writer.hpp"
#include "bert_hpc/prep/made_row.hpp"
#include "bert_hpc/prep/row_stream.hpp"

namespace bert_hpc::prep {

inline constexpr tokenize::TokenSpan no_answer = {-1, -1};

/// Characters of the first answer in the label column's JSON list; no_answer where it is empty.
tokenize::TokenSpan first_answer(std::string_view answers);

/// The positions in a sequence of the first and the last token of the answer, or (0, 0) where the window does not hold
/// all of it: as Transformers' run_qa.py has them.
struct TokenPair {
  std::int32_t first = 0, last = 0;
  bool operator==(const TokenPair&) const = default;
};
TokenPair answer_tokens(const MadeRow& row, const MadeRow::Sequence& sequence, tokenize::TokenSpan answer);

/// The numbers before a sequence's ids: TokenPair, and tokens [begin, end) of its context.
inline constexpr std::int64_t answer_numbers = 4;
/// Appends them.
void add_answer_numbers(const MadeRow& row, const MadeRow::Sequence& sequence, tokenize::TokenSpan answer,
                        std::vector<std::int32_t>& numbers);
/// Appends (tokens, 2): the characters of each token of the sequence; (−1, −1) outside the context.
void add_characters(const MadeRow& row, const MadeRow::Sequence& sequence, std::int64_t tokens,
                    std::vector<std::int32_t>& numbers);

/// A question's id, context and answers, as shards hold them. `labelled`: the answers are known.
std::vector<std::string> question_texts(const SourceRow& row, bool labelled);

}  // namespace bert_hpc::prep
