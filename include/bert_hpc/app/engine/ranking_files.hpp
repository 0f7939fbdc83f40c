// The files of a ranking: predictions.h5, predictions.csv, run.trec and predictions.tsv.
#pragma once

#include <string>

#include "bert_hpc/app/engine/predictions.hpp"

namespace bert_hpc::app {

/// DIRECTORY/predictions.h5 (label, prediction, rank) and DIRECTORY/predictions.csv (with ids), a row for each sample;
/// DIRECTORY/run.trec, lines "query Q0 passage rank score name" (trec_eval); DIRECTORY/predictions.tsv, lines "query
/// passage rank" with tabs (ms_marco_eval.py), up to the rank 1000 that it takes. A query at a time. Throws
/// Error(files), and Error(data) where the shards are damaged. The caller holds the lock of HDF5.
void write_rankings(const std::string& directory, const PredictionsFacts& facts, const Predictions& predictions,
                    const data::ShardReader& reader);

}  // namespace bert_hpc::app
