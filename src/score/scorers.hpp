// The scorers that registry.cpp lists, each defined in the file of its name.
#pragma once

#include <array>

#include "bert_hpc/score/scorer.hpp"

namespace bert_hpc::score {

extern const Scorer squad_scorer;
extern const Scorer wikiqa_scorer;
extern const Scorer msmarco_scorer;
extern const Scorer trec_scorer;
extern const Scorer conll_scorer;
extern const Scorer multilabel_scorer;
extern const std::array<Scorer, 9> glue_scorers;

}  // namespace bert_hpc::score
