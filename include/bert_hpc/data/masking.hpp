// Masked language modelling (Devlin et al., "BERT", 2019, section 3.1): of the tokens of a sequence that are not
// special, max(1, round(probability · count)) are to be predicted; 80% of them are replaced by the mask token, 10% by a
// token drawn from the vocabulary, 10% stay. Drawn again each epoch (Liu et al., "RoBERTa", 2019).
// Whole words: words are drawn instead of tokens, and one that would exceed the number of tokens is left out (BERT's
// "whole word masking", 2019); each token of a word has its own 80, 10 or 10%.
//
// Positions are those with the smallest random keys, a key being a function of (seed, epoch, sample, position) alone:
// the same tokens are masked on every layout, and after every resume.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bert_hpc/data/shard_schema.hpp"

namespace bert_hpc::data {

struct MaskingOptions {
  double probability = 0.15;  ///< of the tokens that are not special
  std::uint64_t seed = 0;
  std::int64_t vocabulary_size = 0;  ///< of the shards: random tokens are drawn from it
  SpecialIds special_ids;            ///< never masked, the text's own [UNK] and [MASK] neither; mask replaces
  /// By id, whether a token continues the word of the one before it (tokenize::continued_tokens()); empty: each token
  /// is drawn for itself.
  std::vector<bool> continues_word{};
};

class Masker {
 public:
  /// Throws Error(data) if the tokenizer has no mask token; probability in (0, 1]. max_length: longest sequence.
  Masker(const MaskingOptions& options, std::int64_t max_length);

  /// Most positions that a sequence of this length may have masked.
  std::int64_t most(std::int64_t length) const { return count(length); }

  /// Replaces tokens in ids (length). Writes the masked positions, ascending, and their original ids to positions and
  /// labels (most(length) each) and returns their number: 0 if every token is special, or every word is longer than
  /// what is to be masked. Does not allocate.
  std::int64_t mask(std::int64_t sample, std::int64_t epoch, std::span<std::int32_t> ids, std::int32_t* positions,
                    std::int32_t* labels);

 private:
  /// A word, or a token.
  struct Candidate {
    std::uint64_t key;
    std::int32_t position, length;
  };
  std::int64_t count(std::int64_t maskable) const;
  bool continues(std::int32_t id) const;
  std::vector<Candidate>::iterator choose(std::int64_t tokens);

  MaskingOptions options_;
  std::uint32_t key0_, key1_;
  std::vector<Candidate> candidates_;
};

}  // namespace bert_hpc::data
