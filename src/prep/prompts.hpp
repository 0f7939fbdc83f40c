// Prompts: texts that the tokenizer reads before the texts of every row, as models of embeddings expect ("query: ").
// Internal to the module.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/prep/prep_config.hpp"
#include "bert_hpc/prep/row_stream.hpp"

namespace bert_hpc::prep {

/// The texts of a row as the tokenizer reads them.
struct PromptedTexts {
  std::string_view text, text_pair;
  std::span<const std::string_view> negatives;
};

class Prompts {
 public:
  /// `source` must outlive it.
  explicit Prompts(const SourceConfig& source) : source_(source) {}

  /// The texts of a row behind [source] prompt and prompt_pair, which is also that of negatives; an empty text has
  /// none. Views last until the next call or the next row.
  PromptedTexts add(const SourceRow& row);

 private:
  const SourceConfig& source_;
  std::string text_, text_pair_;
  std::vector<std::string> negatives_;
  std::vector<std::string_view> views_;
};

}  // namespace bert_hpc::prep
