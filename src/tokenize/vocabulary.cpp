// Reading vocab.txt, and the trie for the longest match: built once, then only probed.
#include "bert_hpc/tokenize/vocabulary.hpp"

#include <algorithm>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "bert_hpc/tokenize/characters.hpp"
#include "bert_hpc/tokenize/utf8.hpp"

namespace bert_hpc::tokenize {

using core::Error;
using core::ExitCode;

namespace {

constexpr std::int64_t largest_file = 64 << 20;  // bytes; the largest vocabularies known have 4 MB

}  // namespace

std::vector<std::string> Vocabulary::lines_of(const std::string& file) {
  const std::string text = core::read_text_file(file, largest_file);
  if (text.empty()) throw Error(ExitCode::data, file + ": is empty; a vocabulary has one piece a line.");
  return core::split_lines(text);
}

Vocabulary::Vocabulary(std::vector<std::string> pieces, const std::string& source, const WordPieceLayout& layout)
    : pieces_(std::move(pieces)), layout_(&layout) {
  std::size_t bytes = 0;
  for (const std::string& piece : pieces_) bytes += piece.size();
  if (bytes + 2 >= ByteTrie::largest)
    throw Error(ExitCode::data, source + ": has more than 16 million bytes of pieces.");
  trie_ = ByteTrie(bytes, 2);
  for (std::int32_t i = 0; i < size(); ++i) {
    const std::string& piece = pieces_[static_cast<std::size_t>(i)];
    if (!is_valid_utf8(piece) || piece.find('\0') != std::string::npos) {
      throw Error(ExitCode::data, source + ": line " + std::to_string(i + 1) +
                                      " is not UTF-8 text; a vocabulary has one piece a line.");
    }
    trie_.insert(first_root, piece, i);
    if (piece.starts_with("##")) trie_.insert(later_root, std::string_view(piece).substr(2), i);
  }
  check_and_find_special(source);
  hash_ = core::hash_of_lines(pieces_);
}

void Vocabulary::check_and_find_special(const std::string& source) {
  std::string missing;
  for (std::size_t i = 0; i < special_roles.size(); ++i) {
    std::int32_t& found = special_.*special_roles[i].id;
    found = id(layout_->tokens[i]);
    if (found < 0) missing += std::string(missing.empty() ? "" : ", ") + layout_->tokens[i];
  }
  if (!missing.empty()) {
    const std::vector<std::string> all(layout_->tokens.begin(), layout_->tokens.end());
    throw Error(ExitCode::data, source + ": the vocabulary lacks " + missing + "; that of " + layout_->usual_class +
                                    " has " + core::listed(all, "and", false) + '.');
  }
}

std::int32_t Vocabulary::id(std::string_view piece) const {
  if (piece.empty()) return trie_.value_at(first_root);
  const Match match = longest_first(piece.data(), static_cast<int>(piece.size()));
  return match.size == static_cast<int>(piece.size()) ? match.id : -1;
}

std::string Vocabulary::text() const {
  std::string text;
  for (const std::string& piece : pieces_) text += piece + '\n';
  return text;
}

namespace {

bool holds_capital(const std::string& piece) {
  const auto* at = reinterpret_cast<const unsigned char*>(piece.data());
  const auto* const end = at + piece.size();
  char32_t scratch[4];
  while (at != end) {
    const char32_t point = decode_utf8(at, end);
    const std::span<const char32_t> lower = character_table().lower_form(point, scratch);
    if (lower.size() != 1 || lower[0] != point) return true;
  }
  return false;
}

}  // namespace

double capital_share(const std::vector<std::string>& pieces) {
  std::int64_t words = 0, capitals = 0;
  for (const std::string& piece : pieces) {
    if (piece.starts_with("##") || (piece.starts_with('[') && piece.ends_with(']'))) continue;
    ++words;
    capitals += holds_capital(piece) ? 1 : 0;
  }
  return words == 0 ? 0 : static_cast<double>(capitals) / static_cast<double>(words);
}

}  // namespace bert_hpc::tokenize
