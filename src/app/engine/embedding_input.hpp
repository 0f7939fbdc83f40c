// A run whose data are embeddings of another model: their rows in memory.
#pragma once

#include "app/engine/data_sets.hpp"

namespace bert_hpc::app {

/// Bytes of the rows of all data sets of embeddings, as they are stored; 0 for token ids. The ranks of a node share
/// them if the host sees device memory, else each rank has them on its device.
std::int64_t feature_bytes(const DataSets& sets);

/// Collective. Numbers the readers' rows and reads those of all data sets, if they are embeddings, into sets.features:
/// each rank of a node a part. Without a shared memory only ranks whose stage `computes_input` read. All ranks wait for
/// each other before the rows are used. Throws Error(data) on numbers that are not finite.
void load_features(DataSets& sets, bool computes_input);

}  // namespace bert_hpc::app
