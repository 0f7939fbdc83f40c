// Word counts of all ranks, brought together.
#include "word_counts.hpp"

#include <string>

#include "bert_hpc/prep/token_store.hpp"
#include "bert_hpc/prep/word_rows.hpp"
#include "prompts.hpp"

namespace bert_hpc::prep {

using tokenize::WordCounts;

namespace {

/// Counts go to rank 0 as lines "count word".
std::string pack_counts(const WordCounts& counts) {
  std::string text;
  for (const auto& [word, count] : counts.sorted()) text += std::to_string(count) + ' ' + word + '\n';
  return text;
}

void unpack_counts(const std::string& text, WordCounts& counts) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t blank = text.find(' ', at), end = text.find('\n', at);
    counts.add(std::string_view(text).substr(blank + 1, end - blank - 1), std::stoll(text.substr(at, blank - at)));
    at = end + 1;
  }
}

}  // namespace

void count_words(const PrepConfig& config, const RowTable& table, const comm::Communicator& group,
                 tokenize::VocabularyTrainer& trainer, WordCounts& counts) {
  const bool any_training = table.has_training_rows();
  RowStream stream(config);
  Prompts prompts(config.source);
  SourceRow row;
  while (stream.next(row)) {
    const RowStatus status = status_of(table, row);
    if (TokenStore::owner(row.index, group.size()) != group.rank() || !is_kept(status)) continue;
    if (any_training && status != RowStatus::train) continue;
    if (config.has_words()) {
      for (const std::string_view word : words_in(row.text)) trainer.count(word, counts);
      continue;
    }
    const PromptedTexts texts = prompts.add(row);
    trainer.count(texts.text, counts);
    trainer.count(texts.text_pair, counts);
    for (const std::string_view text : texts.negatives) trainer.count(text, counts);
  }
}

void gather_counts(comm::Communicator& group, WordCounts& counts) {
  if (group.rank() != 0) {
    const std::string text = pack_counts(counts);
    const auto size = static_cast<std::int64_t>(text.size());
    group.send(std::as_bytes(std::span(&size, 1)), 0);
    group.send(std::as_bytes(std::span(text.data(), text.size())), 0);
    return;
  }
  for (int r = 1; r < group.size(); ++r) {
    std::int64_t size = 0;
    group.receive(std::as_writable_bytes(std::span(&size, 1)), r);
    std::string text(static_cast<std::size_t>(size), '\0');
    group.receive(std::as_writable_bytes(std::span(text.data(), text.size())), r);
    unpack_counts(text, counts);
  }
}

}  // namespace bert_hpc::prep
