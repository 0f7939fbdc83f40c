// Internal to the module.
#pragma once

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/tokenize/vocabulary_trainer.hpp"

namespace bert_hpc::prep {

/// Collective over `group`: rank 0 adds the counts of all other ranks to its own. Each rank's counts travel as text.
void gather_counts(comm::Communicator& group, tokenize::WordCounts& counts);

}  // namespace bert_hpc::prep
