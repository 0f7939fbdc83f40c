#include "bert_hpc/tokenize/metaspace_bpe.hpp"

#include <algorithm>
#include <cstring>

#include "bert_hpc/tokenize/utf8.hpp"

namespace bert_hpc::tokenize {
namespace {

char32_t read_character(const char*& at, const char* end) {
  const auto* next = reinterpret_cast<const unsigned char*>(at);
  const char32_t point = decode_utf8(next, reinterpret_cast<const unsigned char*>(end));
  at = reinterpret_cast<const char*>(next);
  return point;
}

char32_t first_character(std::string_view text) {
  const char* at = text.data();
  return read_character(at, at + text.size());
}

char32_t last_character(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return first_character(text.substr(begin));
}

}  // namespace

void NeighbourCharacters::insert(char32_t left, char32_t right) {
  const bool is_ascii = left < 128 && right < 128;
  const std::size_t at = is_ascii ? left << 7 | right : hash(left, right);
  (is_ascii ? ascii_ : others_)[at >> 6] |= std::uint64_t{1} << (at & 63);
}

void set_merges(const std::vector<std::string>& tokens, const std::vector<MergeIds>& merges, MetaspaceBpeModel& model) {
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id].empty() || character_size(tokens[id]) != tokens[id].size()) continue;
    const char32_t point = first_character(tokens[id]);
    if (point >= model.characters.size()) model.characters.resize(point + 1, -1);
    model.characters[point] = static_cast<std::int32_t>(id);
  }
  model.merges = merge_table(merges);
  const auto missing = std::count(model.byte_ids.begin(), model.byte_ids.end(), -1);
  // The library gives unknown characters out of order if some of the bytes are missing. Without an unknown token it
  // leaves them out, which makes others neighbours.
  model.can_cut = model.falls_back ? missing == 0 : model.unknown >= 0;
  // The texts of byte tokens and of the unknown token do not state which characters they stand for.
  std::vector<bool> is_other(tokens.size(), false);
  if (model.unknown >= 0) is_other[static_cast<std::size_t>(model.unknown)] = true;
  for (const std::int32_t id : model.byte_ids) {
    if (id >= 0) is_other[static_cast<std::size_t>(id)] = true;
  }
  for (const MergeIds& merge : merges) {
    const auto left = static_cast<std::size_t>(merge.left), right = static_cast<std::size_t>(merge.right);
    if (is_other[left] || is_other[right]) model.can_cut = false;
    if (tokens[left].empty() || tokens[right].empty()) continue;  // no symbol is empty
    model.neighbours.insert(last_character(tokens[left]), first_character(tokens[right]));
  }
}

MetaspaceBpeEncoder::MetaspaceBpeEncoder(const MetaspaceBpeModel& model, const SearchedTokens& tokens)
    : model_(model), words_(model.marks, tokens), merger_(model.merges) {}

/// The id of a word that is a token whatever the merges are; −1 if it is none.
std::int32_t MetaspaceBpeEncoder::whole_word(std::string_view word) const {
  if (!model_.has_whole_words || word.find('\0') != std::string_view::npos) return -1;
  constexpr std::size_t longest = std::size_t{1} << 30;
  const ByteTrie::Match match =
      model_.whole_words.longest(0, word.data(), static_cast<int>(std::min(word.size(), longest)));
  return match.id >= 0 && static_cast<std::size_t>(match.size) == word.size() ? match.id : -1;
}

/// take(part) for the parts of a word between which no symbols are merged.
template <class Take>
void MetaspaceBpeEncoder::each_part(std::string_view word, const Take& take) const {
  if (word.empty()) return;
  if (!model_.can_cut) return take(word);
  const char *begin = word.data(), *at = begin;
  const char* const end = begin + word.size();
  char32_t last = read_character(at, end);
  while (at != end) {
    const char* const next = at;
    const char32_t point = read_character(at, end);
    if (!model_.may_join(last, point)) {
      take(std::string_view(begin, static_cast<std::size_t>(next - begin)));
      begin = next;
    }
    last = point;
  }
  take(std::string_view(begin, static_cast<std::size_t>(end - begin)));
}

/// The symbols of a part and their bytes, in the library's order.
void MetaspaceBpeEncoder::set_symbols(std::string_view part) {
  std::vector<std::int32_t>& symbols = merger_.symbols();
  symbols.clear();
  sizes_.clear();
  const auto add = [&](std::int32_t id, std::int32_t size) {
    symbols.push_back(id);
    sizes_.push_back(size);
  };
  std::int32_t unknown_size = 0;  // of unknown characters that were read; 0: none
  const auto add_unknown = [&] {
    if (unknown_size > 0) add(model_.unknown, unknown_size);
    unknown_size = 0;
  };
  const char* at = part.data();
  for (const char* const end = at + part.size(); at != end;) {
    const char* const begin = at;
    const std::int32_t id = model_.id_of(read_character(at, end));
    const auto size = static_cast<std::int32_t>(at - begin);
    if (id >= 0) {
      add_unknown();
      add(id, size);
      continue;
    }
    const auto byte_id = [&](char byte) { return model_.byte_ids[static_cast<unsigned char>(byte)]; };
    if (model_.falls_back && std::all_of(begin, at, [&](char byte) { return byte_id(byte) >= 0; })) {
      // An unknown token before it comes behind it, as in the library.
      for (const char* byte = begin; byte != at; ++byte) add(byte_id(*byte), 1);
    } else if (model_.unknown >= 0) {
      if (!model_.fuses_unknown) add_unknown();
      unknown_size += size;
    }
  }
  add_unknown();
}

void MetaspaceBpeEncoder::merge(std::string_view part, std::vector<std::int32_t>& ids,
                                std::vector<std::int32_t>* starts) {
  set_symbols(part);
  if (!merger_.symbols().empty()) merger_.merge(ids, starts);
}

void MetaspaceBpeEncoder::encode(std::string_view text, std::vector<std::int32_t>& ids) {
  const auto on_piece = [&](std::string_view normal, const MarkedWords::Piece& piece) {
    const std::string_view word = words_.word(normal, piece);
    if (const std::int32_t id = whole_word(word); id >= 0) return ids.push_back(id);
    const char* const end = word.data() + word.size();
    each_part(word, [&](std::string_view part) {
      if (part.size() > ShortWord::longest) return merge(part, ids, nullptr);
      const ShortWord key = ShortWord::read(part.data(), part.size(), end);
      // A word may end with zero bytes, which the key does not tell from none.
      if (part.back() == '\0' || key.is_none()) return merge(part, ids, nullptr);
      append_cached(cache_, key, ids, [&](std::vector<std::int32_t>& to) { merge(part, to, nullptr); });
    });
  };
  words_.split(text, on_piece, [&](std::int32_t id) { ids.push_back(id); });
}

void MetaspaceBpeEncoder::encode_with_spans(std::string_view text, std::vector<std::int32_t>& ids,
                                            std::vector<TokenSpan>& spans) {
  const auto on_piece = [&](std::string_view normal, const MarkedWords::Piece& piece, std::int32_t before) {
    const std::string_view word = words_.word(normal, piece);
    const TokenSpan* const origins = words_.origins();
    const auto add_span = [&](std::size_t begin, std::size_t end) {
      spans.push_back({before + origins[begin].begin, before + origins[end - 1].end});
    };
    if (const std::int32_t id = whole_word(word); id >= 0) {
      ids.push_back(id);
      return add_span(0, word.size());
    }
    each_part(word, [&](std::string_view part) {
      starts_.clear();
      merge(part, ids, &starts_);
      auto begin = static_cast<std::size_t>(part.data() - word.data());
      for (std::size_t i = 0; i < starts_.size(); ++i) {
        const std::size_t last = i + 1 < starts_.size() ? static_cast<std::size_t>(starts_[i + 1]) : sizes_.size();
        std::size_t end = begin;
        for (auto symbol = static_cast<std::size_t>(starts_[i]); symbol < last; ++symbol) {
          end += static_cast<std::size_t>(sizes_[symbol]);
        }
        add_span(begin, end);
        begin = end;
      }
    });
  };
  words_.split_with_spans(text, on_piece, [&](std::int32_t id, const TokenSpan& span) {
    ids.push_back(id);
    spans.push_back(span);
  });
}

/// Vocabularies of this kind are not trained here, so that no words are numbered.
void MetaspaceBpeEncoder::encode_word(std::string_view word, std::vector<std::int32_t>& ids) {
  encode(word, ids);
}

}  // namespace bert_hpc::tokenize
