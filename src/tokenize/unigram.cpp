// The best path through a word, as SentencePiece's EncodeOptimized finds it: from left to right, the best way to each
// place between characters.
#include "bert_hpc/tokenize/unigram.hpp"

#include <algorithm>
#include <cstring>

#include "bert_hpc/tokenize/byte_words.hpp"
#include "bert_hpc/tokenize/utf8.hpp"
#include "character_map.hpp"

namespace bert_hpc::tokenize {
namespace {

constexpr std::string_view mark_text = "\xE2\x96\x81";  // "▁"

std::size_t blanks_at_begin(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::size_t size = blank_size(text, end);
    if (size == 0) break;
    end += size;
  }
  return end;
}

std::size_t end_without_blanks(std::string_view text) {
  std::size_t end = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = character_size(text, at);
    if (blank_size(text, at) == 0) end = at + size;
    at += size;
  }
  return end;
}

bool ends_in_blank(std::string_view text) {
  std::size_t last = text.size();
  while (last > 0 && (static_cast<unsigned char>(text[last - 1]) & 0xC0) == 0x80) --last;
  return last > 0 && blank_size(text, last - 1) > 0;
}

/// Bytes [begin, end) that a step replaces, the first from `from` on; begin = the text's size: none.
std::pair<std::size_t, std::size_t> next_match(const UnigramStep& step, std::string_view text, std::size_t from) {
  if (step.kind == UnigramStep::Kind::replace) {
    const std::size_t at = text.find(step.from, from);
    return at == std::string_view::npos ? std::pair(text.size(), text.size()) : std::pair(at, at + step.from.size());
  }
  const std::size_t at = text.find("  ", from);
  if (at == std::string_view::npos) return {text.size(), text.size()};
  return {at, std::min(text.find_first_not_of(' ', at), text.size())};
}

void keep(OriginText& text, std::size_t begin, std::size_t end) {
  text.bytes = text.bytes.substr(begin, end - begin);
  if (text.origins.empty()) return;
  text.origins = std::vector<TokenSpan>(text.origins.begin() + static_cast<std::ptrdiff_t>(begin),
                                        text.origins.begin() + static_cast<std::ptrdiff_t>(end));
}

void replace(const UnigramStep& step, const OriginText& text, OriginText& to) {
  to.clear();
  std::size_t done = 0;
  const auto copy = [&](std::size_t end) {
    to.bytes.append(text.bytes, done, end - done);
    if (text.origins.empty()) return;
    to.origins.insert(to.origins.end(), text.origins.begin() + static_cast<std::ptrdiff_t>(done),
                      text.origins.begin() + static_cast<std::ptrdiff_t>(end));
  };
  while (done < text.bytes.size()) {
    const auto [begin, end] = next_match(step, text.bytes, done);
    copy(begin);
    if (begin == text.bytes.size()) break;
    to.bytes += step.to;
    // As the library, which adds the new characters behind the last one that it removes.
    if (!text.origins.empty()) to.origins.insert(to.origins.end(), step.to.size(), text.origins[end - 1]);
    done = end;
  }
}

/// Makes `text` what the model's steps make of it. `buffer`: for what lies between two steps.
void apply_steps(const UnigramModel& model, std::unique_ptr<OriginText>& text, std::unique_ptr<OriginText>& buffer) {
  for (const UnigramStep& step : model.steps) {
    switch (step.kind) {
      case UnigramStep::Kind::map:
        buffer->clear();
        model.map->apply(text->bytes, text->origins, *buffer);
        std::swap(text, buffer);
        break;
      case UnigramStep::Kind::strip: {
        const std::size_t begin = step.left ? blanks_at_begin(text->bytes) : 0;
        const std::size_t end = step.right ? end_without_blanks(text->bytes) : text->bytes.size();
        keep(*text, begin, std::max(begin, end));
        break;
      }
      default:
        replace(step, *text, *buffer);
        std::swap(text, buffer);
    }
  }
}

}  // namespace

std::string normalized_text(const UnigramModel& model, std::string_view text) {
  auto normal = std::make_unique<OriginText>(), buffer = std::make_unique<OriginText>();
  normal->bytes = text;
  apply_steps(model, normal, buffer);
  return std::move(normal->bytes);
}

UnigramEncoder::UnigramEncoder(const UnigramModel& model, const AddedTokens& added, const AddedTokens& normalized)
    : model_(model),
      added_(added),
      normalized_(normalized),
      normal_(std::make_unique<OriginText>()),
      other_(std::make_unique<OriginText>()) {}

UnigramEncoder::~UnigramEncoder() = default;

/// The text itself, or a copy with U+FFFD for what is malformed.
std::string_view UnigramEncoder::valid(std::string_view text) {
  if (is_valid_utf8(text)) return text;
  valid_ = valid_utf8(text);
  return valid_;
}

/// Whether a step may change the text.
bool UnigramEncoder::changes(std::string_view text) const {
  for (const UnigramStep& step : model_.steps) {
    switch (step.kind) {
      case UnigramStep::Kind::map:
        if (!model_.map->leaves(text)) return true;
        break;
      case UnigramStep::Kind::strip:
        if ((step.left && blanks_at_begin(text) > 0) || (step.right && ends_in_blank(text))) return true;
        break;
      default:
        if (next_match(step, text, 0).first != text.size()) return true;
    }
  }
  return false;
}

/// Makes normal_ of the text.
void UnigramEncoder::normalize(std::string_view text, bool with_origins) {
  normal_->clear();
  normal_->bytes = text;
  if (with_origins) {
    std::int32_t character = 0;
    for (std::size_t at = 0; at < text.size(); ++character) {
      const std::size_t size = character_size(text, at);
      normal_->origins.insert(normal_->origins.end(), size, {character, character + 1});
      at += size;
    }
  }
  apply_steps(model_, normal_, other_);
}

/// take(piece) for the pieces of text[begin, end). begins_text: the whole text begins with it.
template <class Take>
void UnigramEncoder::each_marked(std::string_view text, std::size_t begin, std::size_t end, bool begins_text,
                                 const Take& take) const {
  if (begin == end) return;
  const auto mark_size = [&](std::size_t at) -> std::size_t {
    if (text[at] == ' ') return 1;
    return text.substr(at, mark_text.size()) == mark_text ? mark_text.size() : 0;
  };
  Piece piece{.begin = begin, .end = begin};
  if (const std::size_t size = mark_size(begin); size > 0) {
    piece = {.begin = begin + size, .end = begin, .has_mark = true, .mark = static_cast<std::ptrdiff_t>(begin)};
  } else {
    piece.has_mark = model_.mark == UnigramMark::always || (model_.mark == UnigramMark::first && begins_text);
  }
  if (model_.splits_marks) {
    for (std::size_t at = piece.begin; at < end;) {
      const std::size_t size = mark_size(at);
      if (size == 0) {
        ++at;
        continue;
      }
      piece.end = at;
      take(piece);
      piece = {.begin = at + size, .end = at, .has_mark = true, .mark = static_cast<std::ptrdiff_t>(at)};
      at += size;
    }
  }
  piece.end = end;
  take(piece);
}

/// take(piece) for the pieces of a part [from, to) of normal text. `is_first`: the text was made of the first part of
/// the whole text.
template <class Take>
void UnigramEncoder::each_piece(std::string_view text, std::size_t from, std::size_t to, bool is_first,
                                const Take& take) const {
  const auto begins_text = [&](std::size_t begin) {
    return is_first && (normal_->origins.empty() ? begin == 0 : normal_->origins[begin].begin == 0);
  };
  if (!model_.splits_blanks) return each_marked(text, from, to, begins_text(from), take);
  for (std::size_t at = from; at < to;) {
    if (const std::size_t size = blank_size(text, at); size > 0) {
      at += size;
      continue;
    }
    const std::size_t begin = at;
    while (at < to && blank_size(text, at) == 0) at += character_size(text, at);
    each_marked(text, begin, at, begins_text(begin), take);
  }
}

/// word_ and, where normal_ has them, word_origins_ become those of a piece with its mark.
void UnigramEncoder::set_word(std::string_view text, const Piece& piece) {
  word_.clear();
  if (piece.has_mark) word_ = mark_text;
  const std::string_view body = text.substr(piece.begin, piece.end - piece.begin);
  if (model_.splits_marks) {
    word_ += body;
  } else {
    for (const char c : body) c == ' ' ? word_ += mark_text : word_ += c;
  }
  if (normal_->origins.empty()) return;
  word_origins_.clear();
  if (piece.has_mark) {
    // One that was added lies on the first character.
    const std::size_t origin = piece.mark >= 0 ? static_cast<std::size_t>(piece.mark) : piece.begin;
    word_origins_.insert(word_origins_.end(), mark_text.size(), normal_->origins[origin]);
  }
  for (std::size_t at = piece.begin; at < piece.end; ++at) {
    const std::size_t copies = !model_.splits_marks && text[at] == ' ' ? mark_text.size() : 1;
    word_origins_.insert(word_origins_.end(), copies, normal_->origins[at]);
  }
}

/// Bytes [begin, end) of the word are no pieces: neighbouring characters of this kind are one token.
void UnigramEncoder::add_unknown(std::string_view word, std::size_t begin, std::size_t end) {
  if (word.substr(begin, end - begin).find('\0') == std::string_view::npos) {
    const ByteTrie::Match match = model_.pieces.longest(0, word.data() + begin, static_cast<int>(end - begin));
    if (match.id >= 0 && static_cast<std::size_t>(match.size) == end - begin) {
      return tokens_.push_back({match.id, begin, end});
    }
  }
  const auto byte_id = [&](std::size_t at) { return model_.byte_ids[static_cast<unsigned char>(word[at])]; };
  bool has_all = model_.falls_back;
  for (std::size_t at = begin; has_all && at < end; ++at) has_all = byte_id(at) >= 0;
  if (!has_all) return tokens_.push_back({model_.unknown, begin, end});
  for (std::size_t at = end; at > begin; --at) tokens_.push_back({byte_id(at - 1), begin, end});
}

/// Makes tokens_ of a word.
void UnigramEncoder::cut(std::string_view word) {
  tokens_.clear();
  paths_.assign(word.size() + 1, Path());
  for (std::size_t at = 0; at < word.size();) {
    const double so_far = paths_[at].score;
    const std::size_t size = character_size(word, at);
    bool has_character = false;
    const auto offer = [&](std::size_t end, std::int32_t id, double score) {
      Path& path = paths_[end];
      if (path.begin >= 0 && !(score > path.score)) return;
      path = {score, id, static_cast<std::ptrdiff_t>(at)};
    };
    const auto on_piece = [&](std::int32_t id, int bytes) {
      const auto length = static_cast<std::size_t>(bytes);
      offer(at + length, id, model_.scores[static_cast<std::size_t>(id)] + so_far);
      has_character = has_character || length == size;
    };
    if (word[at] != '\0') {  // which is in no piece
      model_.pieces.each_prefix(0, word.data() + at, static_cast<int>(word.size() - at), on_piece);
    }
    if (!has_character) offer(at + size, -1, model_.unknown_score + so_far);
    at += size;
  }
  std::size_t unknown_end = 0;  // of unknown characters that follow each other; 0: none
  for (std::size_t end = word.size(); end > 0;) {
    const Path& path = paths_[end];
    const auto begin = static_cast<std::size_t>(path.begin);
    const bool is_unknown = path.id < 0 || path.id == model_.unknown;
    if (is_unknown && unknown_end == 0) unknown_end = end;
    if (!is_unknown && unknown_end > 0) {
      add_unknown(word, end, unknown_end);
      unknown_end = 0;
    }
    if (!is_unknown) tokens_.push_back({path.id, begin, end});
    end = begin;
  }
  if (unknown_end > 0) add_unknown(word, 0, unknown_end);
  std::reverse(tokens_.begin(), tokens_.end());
}

void UnigramEncoder::add_piece(std::string_view text, const Piece& piece, std::vector<std::int32_t>& ids) {
  const auto cut_piece = [&](std::vector<std::int32_t>& to) {
    set_word(text, piece);
    cut(word_);
    for (const Token& token : tokens_) to.push_back(token.id);
  };
  const std::size_t size = piece.end - piece.begin;
  const bool is_short = piece.has_mark && size > 0 && size <= ShortWord::longest;
  const std::string_view body = text.substr(piece.begin, size);
  if (!is_short || body.find('\0') != std::string_view::npos) return cut_piece(ids);
  append_cached(cache_, ShortWord(body), ids, cut_piece);
}

/// on_piece(piece) for the pieces between the added tokens that are searched for in normal text, on_token(id, from, to)
/// for these tokens and their bytes.
template <class OnPiece, class OnToken>
void UnigramEncoder::each_of_normal(std::string_view text, bool is_first, const OnPiece& on_piece,
                                    const OnToken& on_token) {
  const auto place = [&](const TextPart& part) { return static_cast<std::size_t>(part.text.data() - text.data()); };
  const auto on_text = [&](const TextPart& part) {
    const std::size_t from = place(part);
    each_piece(text, from, from + part.text.size(), is_first, on_piece);
  };
  normalized_.split(text, unused_, on_text, [&](std::int32_t id, const TextPart& part) {
    on_token(id, place(part), place(part) + part.text.size());
  });
}

void UnigramEncoder::encode(std::string_view text, std::vector<std::int32_t>& ids) {
  const std::string_view whole = valid(text);
  const auto on_text = [&](const TextPart& part) {
    std::string_view own = part.text;
    normal_->origins.clear();
    if (changes(own)) {
      normalize(own, model_.mark == UnigramMark::first);  // which depends on the place of the first character
      own = normal_->bytes;
    }
    each_of_normal(
        own, part.text.data() == whole.data(), [&](const Piece& piece) { add_piece(own, piece, ids); },
        [&](std::int32_t id, std::size_t, std::size_t) { ids.push_back(id); });
  };
  added_.split(whole, unused_, on_text, [&](std::int32_t id, const TextPart&) { ids.push_back(id); });
}

void UnigramEncoder::encode_with_spans(std::string_view text, std::vector<std::int32_t>& ids,
                                       std::vector<TokenSpan>& spans) {
  const std::string_view whole = valid(text);
  std::int32_t characters = 0;  // of the text before the part
  const auto add = [&](std::int32_t id, const TokenSpan& first, const TokenSpan& last) {
    ids.push_back(id);
    spans.push_back({characters + first.begin, characters + last.end});
  };
  const auto on_piece = [&](const Piece& piece) {
    set_word(normal_->bytes, piece);
    cut(word_);
    for (const Token& token : tokens_) add(token.id, word_origins_[token.begin], word_origins_[token.end - 1]);
  };
  const auto on_normal_token = [&](std::int32_t id, std::size_t from, std::size_t to) {
    const TokenSpan last = normal_->origins[to - 1];
    // Blanks that a token before it took may leave nothing of it.
    add(id, from < to ? normal_->origins[from] : TokenSpan{last.end, last.end}, last);
  };
  const auto on_text = [&](const TextPart& part) {
    normalize(part.text, true);
    each_of_normal(normal_->bytes, characters == 0, on_piece, on_normal_token);
    characters += static_cast<std::int32_t>(count_characters(part.text));
  };
  const auto on_token = [&](std::int32_t id, const TextPart& part) {
    const auto size = static_cast<std::int32_t>(count_characters(part.text));
    add(id, {0, size}, {0, size});
    characters += size;
  };
  added_.split(whole, unused_, on_text, on_token);
}

/// Unigram vocabularies are not trained here, so that no words are numbered.
void UnigramEncoder::encode_word(std::string_view word, std::vector<std::int32_t>& ids) {
  encode(word, ids);
}

}  // namespace bert_hpc::tokenize
