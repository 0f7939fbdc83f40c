// What a task sets of batches, and how many tokens of one its head reads. Pure.
#pragma once

#include "bert_hpc/config/config.hpp"
#include "bert_hpc/data/batch_loader.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::app {

/// Options of batches that [task] sets; the others have their defaults.
data::BatchLoaderOptions task_batches(const config::Task& task);

/// Expected number of rows that the head reads of `sequences` sequences with `tokens` real tokens, with padding
/// `computed` ones.
double expected_targets(const config::Config& input, double sequences, double tokens, double computed);

/// A bound on them for plans without data.
std::int64_t planned_targets(const tasks::Task& task, std::int64_t sequences, std::int64_t tokens);

}  // namespace bert_hpc::app
