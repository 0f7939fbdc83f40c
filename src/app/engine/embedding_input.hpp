// A run whose data are embeddings of another model: their rows in memory.
#pragma once

#include "app/engine/data_sets.hpp"

namespace bert_hpc::app {

/// Reads the rows of all data sets, if they are embeddings, into sets.features, and numbers the readers' rows.
/// Throws Error(data) on numbers that are not finite.
void load_features(DataSets& sets);

}  // namespace bert_hpc::app
