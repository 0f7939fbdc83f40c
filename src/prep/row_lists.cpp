#include "row_lists.hpp"

namespace bert_hpc::prep {

RowLists::RowLists(const PrepConfig& config, const Staging& staging, bool writes) : config_(config), staging_(staging) {
  if (writes) rejects_.emplace(staging.file("rejects.tsv"), "reason");
}

void RowLists::add(const SourceRow& row, RowStatus status, const std::string& file) {
  if (!rejects_) return;
  if (!is_kept(status) && status != RowStatus::not_sampled) {
    rejects_->add(file, row, describe_reject(status, row, config_));
  } else if (is_kept(status) && !row.note.empty()) {
    if (!notes_) notes_.emplace(staging_.file("notes.tsv"), "note");
    notes_->add(file, row, row.note);
  }
}

void RowLists::close() {
  if (rejects_) rejects_->close();
  if (notes_) notes_->close();
}

}  // namespace bert_hpc::prep
