#include "row_tokenizer.hpp"

#include <algorithm>

namespace bert_hpc::prep {

bool rows_are_independent(const PrepConfig& config) {
  const FilterConfig& filter = config.filter;
  return filter.sample == 0 && filter.most_frequent_labels == 0 && filter.min_rows_per_label <= 1 &&
         config.kind().row_texts == 0;
}

RowTokenizer::RowTokenizer(const PrepConfig& config, const tokenize::Tokenizer& tokenizer, const Staging& staging,
                           comm::Communicator& group)
    : config_(config),
      staging_(staging),
      group_(group),
      store_(std::make_unique<RowStore>(config, tokenizer.size(), staging.path(), group)),
      maker_(config, tokenizer),
      unknown_(tokenizer.special_ids().unk) {
  if (group.rank() == 0) rejects_.emplace(staging.file("rejects.tsv"), "reason");
}

void RowTokenizer::add(const SourceRow& row, RowStatus status, const std::string& file, tokenize::TokenSpan answer) {
  if (group_.rank() == 0) {
    if (!is_kept(status) && status != RowStatus::not_sampled) {
      rejects_->add(file, row, describe_reject(status, row, config_));
    } else if (is_kept(status) && !row.note.empty()) {
      if (!notes_) notes_.emplace(staging_.file("notes.tsv"), "note");
      notes_->add(file, row, row.note);
    }
  }
  if (!is_kept(status) || TokenStore::owner(row.index, group_.size()) != group_.rank()) return;
  maker_.make(row.text, row.text_pair, made_);
  store_->add(row, status, answer, made_);
  counts_.text_bytes += static_cast<std::int64_t>(row.text.size() + row.text_pair.size());
  counts_.tokens += std::ssize(made_.ids);
  counts_.unknown += std::count(made_.ids.begin(), made_.ids.end(), unknown_);
  counts_.truncated += made_.truncated ? 1 : 0;
  counts_.cut_into_windows += made_.sequences.size() > 1 ? 1 : 0;
}

std::unique_ptr<RowStore> RowTokenizer::finish(std::int64_t rows) {
  if (rejects_) rejects_->close();
  if (notes_) notes_->close();
  store_->open_for_reading(rows);
  for (std::int64_t* count :
       {&counts_.text_bytes, &counts_.tokens, &counts_.unknown, &counts_.truncated, &counts_.cut_into_windows}) {
    *count = group_.sum(*count);
  }
  return std::move(store_);
}

}  // namespace bert_hpc::prep
