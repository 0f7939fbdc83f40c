// A part of a model with all that it needs to compute a micro-batch: parameters, GEMMs, attention, activations. For
// measurements of passes (app/plan/layer_profiler.hpp, app/report/machine_measurement.hpp).
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "bert_hpc/model/stage.hpp"

namespace bert_hpc::app {

struct MeasuredModel {
  model::HeadKind kind = layers::sequence_head();
  std::int64_t outputs = 1;  ///< columns of the logits that the head's parameters are made for
  std::string kernels;       ///< of matrix products: see ops::make_matrix_product
  std::string attention;     ///< which implementation: see ops::make_attention
  core::DataType storage = core::DataType::fp32;
  ops::ProductSettings products{};
  std::int64_t sublayers_of_stage = 1;  ///< about as many as a stage will hold
  bool split_backward = false;          ///< backward_input and backward_weight one after the other, as zb_h1 has them
};

/// Seconds of forward, backward (or backward_input), backward_weight (0 unless split_backward).
using PassTimes = std::array<double, 3>;

class ModelPiece {
 public:
  /// `group` and `batch` must outlive it.
  ModelPiece(const model::ModelConfig& config, const MeasuredModel& how, const model::ModelRange& range,
             const layers::TensorRank& tensor_rank, const layers::TensorGroup& group, const core::MicroBatch& batch);

  /// Collective over the tensor group.
  PassTimes run();

 private:
  double timed(const auto& work);

  MeasuredModel how_;
  model::ModelRange range_;
  layers::TensorGroup group_;
  const core::MicroBatch& batch_;
  core::ParameterStore parameters_;
  model::Stage stage_;
  std::unique_ptr<ops::MatrixProduct> products_;
  std::unique_ptr<ops::Attention> attention_;
  core::Workspace workspace_, scratch_;
  std::vector<float> others_;
};

}  // namespace bert_hpc::app
