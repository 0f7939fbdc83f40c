// The slow path of word splitting: words with characters beyond ASCII.
//
// Canonical decomposition reorders combining marks. Nearly all of them are stripped right after, so only the few kinds
// that stay need their order: they are inserted by rank among the marks at the word's end, but never across a stripped
// mark of combining class 0.
#include "bert_hpc/tokenize/word_splitter.hpp"

#include "bert_hpc/tokenize/utf8.hpp"

namespace bert_hpc::tokenize {
namespace flag = character_flag;

WordSplitter::WordSplitter(const TextForm& form, std::vector<std::string> specials)
    : table_(character_table()),
      lowercase_(form.lowercase),
      strips_(form.lowercase && form.strip_accents),
      ideographs_alone_(form.tokenize_chinese_chars),
      specials_(std::move(specials)) {
  for (int c = 0; c < 256; ++c) {
    Ascii& entry = ascii_[static_cast<std::size_t>(c)];
    entry.fold = static_cast<char>(c);
    if (c >= 128) {
      entry.kind = Kind::other;
      continue;
    }
    const std::uint8_t flags = table_.flags(static_cast<char32_t>(c));
    entry.kind = flags & flag::space         ? Kind::space
                 : flags & flag::removed     ? Kind::removed
                 : c == '['                  ? Kind::bracket
                 : flags & flag::punctuation ? Kind::punctuation
                                             : Kind::letter;
    if (lowercase_ && c >= 'A' && c <= 'Z') entry.fold = static_cast<char>(c - 'A' + 'a');
  }
}

int WordSplitter::special_at(const unsigned char* p, const unsigned char* end) const {
  const std::string_view rest(reinterpret_cast<const char*>(p), static_cast<std::size_t>(end - p));
  int best = -1;
  for (std::size_t i = 0; i < specials_.size(); ++i) {
    const bool longer = best < 0 || specials_[i].size() > specials_[static_cast<std::size_t>(best)].size();
    if (longer && rest.starts_with(specials_[i])) best = static_cast<int>(i);
  }
  return best;
}

Word WordSplitter::unicode_word(const unsigned char*& p, const unsigned char* end) {
  const unsigned char* const source = p;
  count_ = 0;
  barrier_ = 0;
  last_origin_ = 0;
  for (origin_ = 0; p < end; ++origin_) {
    const unsigned char* const start = p;
    const char32_t point = decode_utf8(p, end);
    const std::uint8_t flags = table_.flags(point);
    if (flags & flag::removed) continue;
    const bool alone = flags & flag::space || (ideographs_alone_ && flags & flag::cjk) || is_punctuation(point, flags);
    if (alone && count_ > 0) {  // ends the word before it, and is read next time
      p = start;
      break;
    }
    if (flags & flag::space) continue;
    if (point < 128 && alone) {  // ASCII punctuation, perhaps a special text: the caller's business
      p = start;
      break;
    }
    append(point);
    if (alone) break;
  }
  return encode(source);
}

bool WordSplitter::is_punctuation(char32_t point, std::uint8_t flags) const {
  if (!strips_ || !(flags & flag::mapped)) return flags & flag::punctuation;
  char32_t scratch[4];  // uncased text is split after it is mapped: "≠" becomes "=", which is punctuation
  return table_.flags(table_.uncased_form(point, scratch).front()) & flag::punctuation;
}

void WordSplitter::append(char32_t point) {
  const std::uint8_t flags = table_.flags(point);
  if (lowercase_ && !strips_) {
    char32_t scratch[4];
    for (const char32_t form : table_.lower_form(point, scratch)) append_one(form);
  } else if (!strips_ || !(flags & (flag::mapped | flag::mark | flag::barrier))) {
    append_one(point);
  } else if (flags & flag::barrier) {
    barrier_ = count_;
  } else if (flags & flag::mapped) {
    char32_t scratch[4];
    for (const char32_t form : table_.uncased_form(point, scratch)) append_one(form);
  }
}

void WordSplitter::append_one(char32_t point) {
  last_origin_ = origin_;
  if (count_ > longest_word) return;
  const bool moves = strips_ && (table_.flags(point) & flag::reordered);
  const int rank = moves ? table_.reorder_rank(point) : 0;
  int index = count_;
  if (moves) {
    while (index > barrier_ && ranks_[static_cast<std::size_t>(index - 1)] > rank) --index;
    const auto from = static_cast<std::size_t>(index), to = static_cast<std::size_t>(count_);
    std::copy_backward(points_.begin() + index, points_.begin() + count_, points_.begin() + count_ + 1);
    std::copy_backward(ranks_.begin() + static_cast<std::ptrdiff_t>(from),
                       ranks_.begin() + static_cast<std::ptrdiff_t>(to),
                       ranks_.begin() + static_cast<std::ptrdiff_t>(to) + 1);
    std::copy_backward(origins_.begin() + index, origins_.begin() + count_, origins_.begin() + count_ + 1);
  }
  points_[static_cast<std::size_t>(index)] = point;
  ranks_[static_cast<std::size_t>(index)] = rank;
  origins_[static_cast<std::size_t>(index)] = origin_;
  ++count_;
}

Word WordSplitter::encode(const unsigned char* source) {
  char* out = buffer_.data();
  for (int i = 0; i < count_; ++i) out = encode_utf8(points_[static_cast<std::size_t>(i)], out);
  return finish(static_cast<int>(out - buffer_.data()), count_ > longest_word, source, last_origin_ + 1,
                origins_.data());
}

}  // namespace bert_hpc::tokenize
