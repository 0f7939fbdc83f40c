#include "prompts.hpp"

namespace bert_hpc::prep {
namespace {

/// `storage` holds the result if there is something to add.
std::string_view behind(const std::string& prompt, std::string_view text, std::string& storage) {
  if (prompt.empty() || text.empty()) return text;
  storage.assign(prompt).append(text);
  return storage;
}

}  // namespace

PromptedTexts Prompts::add(const SourceRow& row) {
  PromptedTexts texts{behind(source_.prompt, row.text, text_), behind(source_.prompt_pair, row.text_pair, text_pair_),
                      row.negatives};
  if (source_.prompt_pair.empty()) return texts;
  negatives_.resize(row.negatives.size());
  views_.resize(row.negatives.size());
  for (std::size_t i = 0; i < views_.size(); ++i) {
    views_[i] = behind(source_.prompt_pair, row.negatives[i], negatives_[i]);
  }
  texts.negatives = views_;
  return texts;
}

}  // namespace bert_hpc::prep
