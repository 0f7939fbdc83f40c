#include "row_tokenizer.hpp"

#include <algorithm>

namespace bert_hpc::prep {

bool rows_are_independent(const PrepConfig& config) {
  const FilterConfig& filter = config.filter;
  return filter.sample == 0 && filter.most_frequent_labels == 0 && filter.min_rows_per_label <= 1 &&
         !config.stores_texts();
}

RowTokenizer::RowTokenizer(const PrepConfig& config, const tokenize::Tokenizer& tokenizer, const std::string& directory,
                           comm::Communicator& group)
    : group_(group),
      store_(std::make_unique<RowStore>(config, tokenizer.size(), directory, group)),
      maker_(config, tokenizer),
      prompts_(config.source),
      cuts_windows_(config.tokenizer.doc_stride.has_value()),
      unknown_(tokenizer.kind().knows_all_text ? -1 : tokenizer.special_ids().unk) {}

void RowTokenizer::add(const SourceRow& row, RowStatus status, tokenize::TokenSpan answer) {
  if (!is_kept(status) || TokenStore::owner(row.index, group_.size()) != group_.rank()) return;
  const PromptedTexts texts = prompts_.add(row);
  maker_.make(texts.text, texts.text_pair, made_, texts.negatives);
  store_->add(row, status, answer, made_);
  std::size_t bytes = row.text.size() + row.text_pair.size();
  for (const std::string_view text : row.negatives) bytes += text.size();
  count_text(static_cast<std::int64_t>(bytes));
  count();
}

void RowTokenizer::add_ids(std::int64_t row, RowStatus split, std::vector<std::int32_t>& ids,
                           std::vector<std::int32_t>& pair_ids, std::span<std::vector<std::int32_t>> negatives) {
  maker_.make_of_ids(ids, pair_ids, made_, negatives);
  SourceRow source;
  source.index = row;
  store_->add(source, split, no_answer, made_);
  count();
}

void RowTokenizer::count() {
  counts_.tokens += std::ssize(made_.ids);
  counts_.unknown += std::count(made_.ids.begin(), made_.ids.end(), unknown_);
  counts_.truncated += made_.truncated ? 1 : 0;
  counts_.cut_into_windows += cuts_windows_ && made_.sequences.size() > 1 ? 1 : 0;
}

std::unique_ptr<RowStore> RowTokenizer::finish(std::int64_t rows) {
  store_->open_for_reading(rows);
  for (std::int64_t* count :
       {&counts_.text_bytes, &counts_.tokens, &counts_.unknown, &counts_.truncated, &counts_.cut_into_windows}) {
    *count = group_.sum(*count);
  }
  return std::move(store_);
}

}  // namespace bert_hpc::prep
