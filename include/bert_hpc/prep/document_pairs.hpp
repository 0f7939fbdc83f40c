// Pairs of texts from documents, as BERT is pretrained on (Devlin et al., "BERT", 2019, appendix A.2, and its
// create_pretraining_data.py). A document is a list of units, lines of text. Whole units are taken until a sequence is
// full; a first text is some of them, and the second one the others ("next"), or, half of the time, as many units as
// fit from another document; units that are not used begin the next sequence. A passage that is too long loses tokens
// at its begin or its end. Or both texts follow each other and are swapped half of the time, as ALBERT is pretrained
// (Lan et al., "ALBERT", 2020, section 3.1).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bert_hpc/prep/row_number.hpp"

namespace bert_hpc::prep {

enum class PairKind { next_sentence, sentence_order };

/// The names of the classes of pairs, by number: 0 for texts in their order, as in Transformers.
std::vector<std::string> class_names(PairKind kind);

/// Units [begin, end).
struct Document {
  RowNumber begin = 0, end = 0;
  RowNumber units() const { return end - begin; }
};

/// Tokens of consecutive units.
struct Passage {
  RowNumber unit = 0;         ///< the first one
  std::uint32_t skipped = 0;  ///< tokens, from its begin, that are left out
  std::uint32_t tokens = 0;   ///< at least 1
};

struct DocumentPair {
  Passage first, second;
  bool other = false;  ///< class 1: the second text is of another document, or the texts are swapped
};

struct PairOptions {
  PairKind kind = PairKind::next_sentence;
  std::int64_t room = 0;  ///< tokens of both texts together, at least 2
  std::uint64_t seed = 0;
  double short_probability = 0.1;  ///< of a document: its pairs are of a random shorter length
};

/// The pairs of all documents in their order: a function of the options and the lengths alone. length(unit): tokens of
/// a unit, at least 1. Of documents that are alone in the list no text is of another one: their units pair among
/// themselves.
std::vector<DocumentPair> pairs_of(const std::vector<Document>& documents, const PairOptions& options,
                                   const std::function<std::int64_t(RowNumber)>& length);

}  // namespace bert_hpc::prep
