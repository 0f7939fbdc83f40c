// Truncation follows the "longest_first" of Hugging Face's tokenizers, down to which text gets the odd token; windows
// follow their truncation with a stride ("only_second" for pairs).
#include "bert_hpc/prep/sequence_maker.hpp"

#include <algorithm>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/prep/word_rows.hpp"
#include "id_text.hpp"

namespace bert_hpc::prep {

PairLengths truncate_longest_first(std::int64_t first, std::int64_t second, std::int64_t room) {
  if (first + second <= room) return {first, second};
  const bool first_is_longer = first > second;
  const std::int64_t shorter = std::min({first, second, room / 2});
  const std::int64_t longer = room - shorter;
  return first_is_longer ? PairLengths{longer, shorter} : PairLengths{shorter, longer};
}

std::vector<Window> windows_of(std::int64_t tokens, std::int64_t room, std::int64_t step) {
  std::vector<Window> windows;
  for (std::int64_t begin = 0;; begin += step) {
    windows.push_back({begin, std::min(begin + room, tokens)});
    if (windows.back().end == tokens) return windows;
  }
}

SequenceMaker::SequenceMaker(const PrepConfig& config, const tokenize::Tokenizer& tokenizer)
    : encoder_(config.holds_ids() ? id_reader(tokenizer.size()) : tokenizer.encoder()),
      settings_(config.tokenizer),
      room_(config.tokenizer.max_tokens - config.sequence(tokenizer.sequence()).special_tokens(config.has_pairs())),
      frame_(config.sequence(tokenizer.sequence()), tokenizer.special_ids(), config.has_pairs()),
      pairs_(config.has_pairs()),
      documents_(config.pairs_documents()),
      parts_(config.parts_texts()),
      has_second_(config.has_second_text()),
      packs_(config.packs()),
      spans_(config.has_answers()),
      words_(config.has_words()),
      unknown_(tokenizer.special_ids().unk),
      end_(config.ends_texts() ? tokenizer.text_end() : -1) {
  core::require(end_ >= 0 || !config.ends_texts(), "the tokenizer has a token that ends texts");
}

void SequenceMaker::make(std::string_view text, std::string_view text_pair, MadeRow& row,
                         std::span<const std::string_view> negatives) {
  row.clear();
  if (documents_) return encode_lines(text, row);
  first_.clear();
  second_.clear();
  negatives_.resize(negatives.size());
  for (std::size_t i = 0; i < negatives.size(); ++i) {
    negatives_[i].clear();
    encoder_->encode(negatives[i], negatives_[i]);
  }
  if (words_) {
    encode_words(text, row);
  } else {
    encoder_->encode(text, first_);
  }
  if (spans_) {
    encoder_->encode_with_spans(text_pair, second_, row.spans);
  } else if (has_second_) {
    encoder_->encode(text_pair, second_);
  }
  cut(row);
  if (!words_) return;
  std::vector<Window> windows;
  for (const MadeRow::Sequence& sequence : row.sequences) windows.push_back(sequence.window);
  assign_words(windows, row.word_ends, row.word_window);
}

void SequenceMaker::make_of_ids(std::vector<std::int32_t>& ids, std::vector<std::int32_t>& pair_ids, MadeRow& row,
                                std::span<std::vector<std::int32_t>> negatives) {
  row.clear();
  first_.swap(ids);
  second_.swap(pair_ids);
  negatives_.resize(negatives.size());
  for (std::size_t i = 0; i < negatives.size(); ++i) negatives_[i].swap(negatives[i]);
  cut(row);
}

/// first_ and second_ become sequences.
void SequenceMaker::cut(MadeRow& row) {
  if (end_ >= 0) first_.push_back(end_);
  if (packs_) {
    row.ids.swap(first_);
    row.sequences.push_back({row.ids.size(), std::ssize(row.ids)});
  } else if (settings_.doc_stride) {
    make_windows(row);
  } else {
    make_truncated(row);
  }
}

/// Each line with a token is a sequence.
void SequenceMaker::encode_lines(std::string_view text, MadeRow& row) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::size_t before = row.ids.size();
    encoder_->encode(text.substr(0, end), row.ids);
    const auto tokens = static_cast<std::int64_t>(row.ids.size() - before);
    if (tokens > 0) row.sequences.push_back({row.ids.size(), tokens});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

/// An unknown token stands for a word without characters that a token could be made of.
void SequenceMaker::encode_words(std::string_view text, MadeRow& row) {
  for (const std::string_view word : words_in(text)) {
    const std::size_t before = first_.size();
    encoder_->encode(word, first_);
    if (first_.size() == before) {
      row.empty_words.push_back(static_cast<std::int32_t>(row.word_ends.size()));
      first_.push_back(unknown_);
    }
    row.word_ends.push_back(static_cast<std::int32_t>(first_.size()));
  }
}

void SequenceMaker::make_truncated(MadeRow& row) const {
  const PairLengths all = {std::ssize(first_), std::ssize(second_)};
  if (parts_) {
    const auto add = [&](std::span<const std::int32_t> text) {
      const std::size_t kept = std::min(text.size(), static_cast<std::size_t>(room_));
      row.truncated = row.truncated || kept < text.size();
      add_sequence(text.first(kept), {}, row);
    };
    add(first_);
    if (has_second_) add(second_);
    for (const std::vector<std::int32_t>& text : negatives_) add(text);
    return;
  }
  const PairLengths kept =
      pairs_ ? truncate_longest_first(all.first, all.second, room_) : PairLengths{std::min(all.first, room_), 0};
  row.truncated = kept.first + kept.second < all.first + all.second;
  add_sequence(std::span(first_).first(static_cast<std::size_t>(kept.first)),
               std::span(second_).first(static_cast<std::size_t>(kept.second)), row);
}

void SequenceMaker::make_windows(MadeRow& row) const {
  std::span<const std::int32_t> question;
  std::int64_t room = room_;
  if (pairs_) {
    question = first_;
    const std::int64_t most = room_ - settings_.least_window();
    row.truncated = std::ssize(question) > most;
    if (row.truncated) question = question.first(static_cast<std::size_t>(most));
    room -= std::ssize(question);
  }
  const std::span<const std::int32_t> document = pairs_ ? second_ : first_;
  const std::int64_t step = settings_.stride == "step" ? *settings_.doc_stride : room - *settings_.doc_stride;
  for (const Window& window : windows_of(std::ssize(document), room, step)) {
    add_window(question, document, window, row);
  }
}

void SequenceMaker::add_window(std::span<const std::int32_t> question, std::span<const std::int32_t> document,
                               const Window& window, MadeRow& row) const {
  const auto part =
      document.subspan(static_cast<std::size_t>(window.begin), static_cast<std::size_t>(window.end - window.begin));
  add_sequence(pairs_ ? question : part, pairs_ ? part : question, row);
  row.sequences.back().document = frame_.before() + (pairs_ ? std::ssize(question) + frame_.after() : 0);
  row.sequences.back().window = window;
}

void SequenceMaker::add_sequence(std::span<const std::int32_t> first, std::span<const std::int32_t> second,
                                 MadeRow& row) const {
  const std::int64_t of_type_0 = frame_.add(first, second, row.ids);
  row.sequences.push_back({row.ids.size(), of_type_0});
}

}  // namespace bert_hpc::prep
