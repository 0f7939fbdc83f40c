// What BERT's normalizer does to text before it is split into words.
#pragma once

namespace bert_hpc::tokenize {

struct TextForm {
  bool lowercase = true;
  bool strip_accents = true;           ///< of lower-cased text alone; other text keeps its accents
  bool tokenize_chinese_chars = true;  ///< each ideograph is a word by itself

  bool operator==(const TextForm&) const = default;
};

/// Hugging Face's uncased and cased BERT.
inline constexpr TextForm uncased{}, cased{.lowercase = false, .strip_accents = false};

}  // namespace bert_hpc::tokenize
