// Outputs of a teacher that mode "predict" has stored: [distill] teacher_scores. They are in memory for all samples of
// the training data, on the ranks with the student's head.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "app/engine/memory_plan.hpp"
#include "app/engine/model_labels.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/micro_batch.hpp"
#include "bert_hpc/core/tensor.hpp"
#include "bert_hpc/data/label_scale.hpp"
#include "bert_hpc/data/shard_reader.hpp"
#include "bert_hpc/model/model_config.hpp"

namespace bert_hpc::app {

/// What a run knows of the file before it reads the scores.
struct ScoresPlan {
  std::string path;
  std::int64_t samples = 0, outputs = 0;
  ClassifierUse classifier{};  ///< which column of the file is each of the student's outputs
};

/// The plan of [distill] teacher_scores beside this student. Throws Error(input) and Error(data) if the file does not
/// have the outputs that the losses need for these shards.
ScoresPlan plan_scores(const config::Config& input, const model::ModelConfig& student, const data::ShardReader& reader);

/// Line of the banner.
std::pair<std::string, std::string> scores_line(const config::Config& input, const ScoresPlan& plan);

/// The file's outputs (samples, outputs) in the order of the reader's samples and of the student's outputs. `scales`:
/// the units of the training. Throws Error(data).
std::vector<float> read_scores(const ScoresPlan& plan, const data::ShardReader& reader,
                               const data::LabelScales& scales);

class TeacherScores {
 public:
  /// `rows`: most rows that the head reads of a micro-batch. `holds`: the rank has the student's head.
  TeacherScores(const ScoresPlan& plan, std::int64_t rows, bool holds, bool allocates);

  /// `scores` (samples, outputs): of read_scores().
  void load(const std::vector<float>& scores);
  /// (rows that the head reads, outputs) of a micro-batch; valid until the next call.
  core::Tensor<float> outputs(const core::MicroBatch& batch);
  MemoryPlan memory() const;  ///< bytes of this rank

 private:
  std::int64_t samples_, outputs_, rows_;
  bool holds_;
  core::Buffer<float> scores_;    // (samples, outputs)
  core::Buffer<float> of_batch_;  // (rows, outputs)
};

}  // namespace bert_hpc::app
