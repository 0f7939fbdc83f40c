// Internal to the module.
#pragma once

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/prep/row_table.hpp"
#include "bert_hpc/tokenize/vocabulary_trainer.hpp"

namespace bert_hpc::prep {

/// Reads the text and adds the words of this rank's rows of the training split, or where that has none of all that are
/// kept: nothing of what the model is judged by goes into the vocabulary. Throws as RowStream and status_of() do.
void count_words(const PrepConfig& config, const RowTable& table, const comm::Communicator& group,
                 tokenize::VocabularyTrainer& trainer, tokenize::WordCounts& counts);

/// Collective over `group`: rank 0 adds the counts of all other ranks to its own. Each rank's counts travel as text.
void gather_counts(comm::Communicator& group, tokenize::WordCounts& counts);

}  // namespace bert_hpc::prep
