// The special tokens of WordPiece tokenizers and the sequences that they make: those of BERT, and of MPNet, whose
// tokens and sequences are RoBERTa's.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "bert_hpc/tokenize/sequence_template.hpp"
#include "bert_hpc/tokenize/special_ids.hpp"

namespace bert_hpc::tokenize {

struct WordPieceLayout {
  const char* name = "";                                   ///< TokenizerParts::sections of its tokenizers
  const char* usual_class = "";                            ///< in Transformers
  const char* model_type = "";                             ///< of the models that have it
  std::array<const char*, special_roles.size()> tokens{};  ///< in the order of special_roles
  /// Makes RoBERTa's sequences, its mask takes the blanks before it, and its models have no token types.
  bool of_roberta = false;

  const char* token(std::int32_t SpecialIds::*role) const;
  const SequenceTemplate& sequence() const;
};

/// BERT's first.
std::span<const WordPieceLayout* const> wordpiece_layouts();
inline const WordPieceLayout& bert_layout() {
  return *wordpiece_layouts().front();
}
/// The layout of this name; BERT's if there is none.
const WordPieceLayout& wordpiece_layout(std::string_view name);

}  // namespace bert_hpc::tokenize
