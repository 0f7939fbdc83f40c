// What a training consists of once it is set up; shared by set-up and step loop.
#pragma once

#include <memory>
#include <optional>

#include "bert_hpc/app/application.hpp"
#include "bert_hpc/app/engine/assembly.hpp"
#include "bert_hpc/app/engine/data_sets.hpp"
#include "bert_hpc/app/engine/evaluator.hpp"
#include "bert_hpc/app/plan/pipeline_setup.hpp"
#include "bert_hpc/data/batch_loader.hpp"
#include "bert_hpc/train/data_parallel.hpp"

namespace bert_hpc::app {

/// Everything that lives as long as the training.
struct Training {
  std::optional<comm::ProcessGroups> groups;  // none in an estimate
  DataSets sets;
  PipelineSetup pipeline;
  std::int64_t usual_micro_tokens = 0;
  data::BatchLoaderOptions batches;
  std::optional<Assembly> assembly;
  std::optional<data::BatchLoader> loader;
  std::optional<Evaluator> validation, test;
  std::int64_t message_bytes = 0;
  layers::BatchBounds bounds, evaluation_bounds;
  std::unique_ptr<train::DataParallel> sums;  // null in an estimate

  int micro_batches() const { return static_cast<int>(loader->bounds().replica_micro_batches); }
};

/// How the assembly's arena is shared out. Pure.
train::ShardSettings shards_of(const Training& training, const Assembly& assembly, const RunContext& context);

/// Planned memory of the assembly's rank. Pure.
MemoryPlan memory_of(const Training& training, const Assembly& assembly, const RunContext& context);

}  // namespace bert_hpc::app
