#include "bert_hpc/tokenize/wordpiece_layout.hpp"

namespace bert_hpc::tokenize {
namespace {

const SequenceTemplate& bert_sequence() {
  static const SequenceTemplate sequence = [] {
    SequenceTemplate made;
    made.before = {&SpecialIds::cls};
    made.after = made.between = made.after_pair = {&SpecialIds::sep};
    made.second_type = 1;
    return made;
  }();
  return sequence;
}

}  // namespace

const char* WordPieceLayout::token(std::int32_t SpecialIds::*role) const {
  std::size_t at = 0;
  while (special_roles[at].id != role) ++at;
  return tokens[at];
}

const SequenceTemplate& WordPieceLayout::sequence() const {
  return of_roberta ? roberta_sequence() : bert_sequence();
}

std::span<const WordPieceLayout* const> wordpiece_layouts() {
  static const WordPieceLayout bert = {
      .usual_class = "BertTokenizer", .model_type = "bert", .tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}};
  static const WordPieceLayout mpnet = {.name = "mpnet",
                                        .usual_class = "MPNetTokenizer",
                                        .model_type = "mpnet",
                                        .tokens = {"<pad>", "[UNK]", "<s>", "</s>", "<mask>"},
                                        .of_roberta = true};
  static const WordPieceLayout* const all[] = {&bert, &mpnet};
  return all;
}

const WordPieceLayout& wordpiece_layout(std::string_view name) {
  for (const WordPieceLayout* layout : wordpiece_layouts()) {
    if (layout->name == name) return *layout;
  }
  return bert_layout();
}

}  // namespace bert_hpc::tokenize
