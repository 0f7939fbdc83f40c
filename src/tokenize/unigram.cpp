// The best path through a word, as SentencePiece's EncodeOptimized finds it: from left to right, the best way to each
// position between characters.
#include "bert_hpc/tokenize/unigram.hpp"

#include <algorithm>

#include "bert_hpc/tokenize/utf8.hpp"

namespace bert_hpc::tokenize {

UnigramEncoder::UnigramEncoder(const UnigramModel& model, const SearchedTokens& tokens)
    : model_(model), words_(model.marks, tokens) {}

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

void UnigramEncoder::add_piece(std::string_view text, const MarkedWords::Piece& piece, std::vector<std::int32_t>& ids) {
  const auto cut_piece = [&](std::vector<std::int32_t>& to) {
    cut(words_.word(text, piece));
    for (const Token& token : tokens_) to.push_back(token.id);
  };
  const std::size_t size = piece.end - piece.begin;
  const bool is_short = piece.has_mark && size > 0 && size <= ShortWord::longest;
  const std::string_view body = text.substr(piece.begin, size);
  if (!is_short || body.find('\0') != std::string_view::npos) return cut_piece(ids);
  append_cached(cache_, ShortWord(body), ids, cut_piece);
}

void UnigramEncoder::encode(std::string_view text, std::vector<std::int32_t>& ids) {
  words_.split(
      text, [&](std::string_view normal, const MarkedWords::Piece& piece) { add_piece(normal, piece, ids); },
      [&](std::int32_t id) { ids.push_back(id); });
}

void UnigramEncoder::encode_with_spans(std::string_view text, std::vector<std::int32_t>& ids,
                                       std::vector<TokenSpan>& spans) {
  const auto on_piece = [&](std::string_view normal, const MarkedWords::Piece& piece, std::int32_t before) {
    cut(words_.word(normal, piece));
    const TokenSpan* const origins = words_.origins();
    for (const Token& token : tokens_) {
      ids.push_back(token.id);
      spans.push_back({before + origins[token.begin].begin, before + origins[token.end - 1].end});
    }
  };
  words_.split_with_spans(text, on_piece, [&](std::int32_t id, const TokenSpan& span) {
    ids.push_back(id);
    spans.push_back(span);
  });
}

/// Unigram vocabularies are not trained here, so that no words are numbered.
void UnigramEncoder::encode_word(std::string_view word, std::vector<std::int32_t>& ids) {
  encode(word, ids);
}

}  // namespace bert_hpc::tokenize
