#include "document_rules.hpp"

#include <string>
#include <utility>

#include "split_rules.hpp"

namespace bert_hpc::prep {

void check_documents(const PrepConfig& c, config::TomlReader& reader) {
  const bool is_known = !c.task.name.empty() && !c.source.format.empty();
  if (!is_known) return;
  if (reader.given("task.pairs") && !c.pairs_documents()) {
    complain(reader, "task.pairs",
             c.kind().labels_pairs
                 ? "is for documents, of whose lines pairs are made, and [source] text_pair names second texts."
                 : "is for masked_lm_pairs, and the task is " + c.task.name + ".");
  }
  if (!c.pairs_documents()) return;
  if (!c.source.label.empty() || !c.source.label_columns.empty()) {
    complain(
        reader, "source.label",
        "does not go with documents, whose pairs are labelled as they are made: remove it, or name the second text "
        "of labelled pairs in text_pair.");
  }
  if (!c.task.labels.empty()) complain(reader, "task.labels", "has no meaning for pairs that are made of documents.");
  if (c.source.unit == "line" && find_text_format(c.source.format)->takes_unit) {
    complain(reader, "source.unit",
             "= \"line\" makes documents of one line each, but pairs are made of several: set \"paragraph\", for lines "
             "between blank lines, or \"file\".");
  }
  if (c.tokenizer.doc_stride) {
    complain(reader, "tokenizer.doc_stride", "does not go with documents, of whose lines pairs are made.");
  }
  if (!c.source.prompt.empty()) {
    complain(reader, "source.prompt", "does not go with documents, of whose lines pairs are made.");
  }
}

void check_ids(const PrepConfig& c, config::TomlReader& reader) {
  if (!c.holds_ids() || c.task.name.empty()) return;
  const std::string holds = std::string(c.text_format().title) + " hold ids of tokens";
  if (!c.kind().masks_tokens()) {
    complain(reader, "task.name",
             "\"" + c.task.name + "\" needs text, and " + holds + ": they are for masked_lm_pairs and masked_lm.");
  }
  if (c.pairs_documents()) {
    complain(reader, "source.text_pair",
             "is missing, and the rows are pairs: leave text out, or name \"second\" in text_pair.");
  }
  if (c.tokenizer.train_size > 0) {
    complain(reader, "tokenizer.train_size",
             "needs text, and " + holds + ": name the vocabulary of these in vocabulary.");
  }
  for (const auto& [key, prompt] :
       {std::pair("source.prompt", &c.source.prompt), std::pair("source.prompt_pair", &c.source.prompt_pair)}) {
    if (!prompt->empty()) complain(reader, key, "needs text, and " + holds + ".");
  }
  if (c.filter.max_characters > 0) complain(reader, "filter.max_characters", "needs text, and " + holds + ".");
}

}  // namespace bert_hpc::prep
