#include "app/plan/model_piece.hpp"

#include <algorithm>
#include <chrono>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/random_fill.hpp"

namespace bert_hpc::app {
namespace {

/// Small values: they do not change the time.
void fill(const core::Matrix& x) {
  const core::Buffer<float> values(x.size());
  ops::fill_normal({values.data(), static_cast<std::size_t>(values.size())}, 0.03f, 1);
  ops::copy(core::Tensor<float>(values.data(), x.rows, x.columns), x);
}

}  // namespace

ModelPiece::ModelPiece(const model::ModelConfig& config, const MeasuredModel& how, const model::ModelRange& range,
                       const layers::TensorRank& tensor_rank, const layers::TensorGroup& group,
                       const core::MicroBatch& batch)
    : how_(how),
      range_(range),
      group_(group),
      batch_(batch),
      parameters_(model::model_parameters(config, how.kind, how.outputs, range, tensor_rank),
                  core::ParameterStore::Arenas::with_gradients),
      stage_(config, how.kind, how.outputs, range, parameters_, group, how.storage),
      products_(ops::make_matrix_product(how.kernels, how.products)),
      attention_(ops::make_attention(how.attention, how.storage, how.products.tf32)) {
  model::initialize_parameters(parameters_, config, 1);
  const layers::BatchBounds bounds{.tokens = batch.tokens.count,
                                   .sequences = batch.sequences,
                                   .max_length = batch.max_length,
                                   .selected = batch.targets.rows.count,
                                   .dropout_tiles = attention_->dropout_tiles(batch.max_length, config.head_dim())};
  stage_.plan(workspace_, bounds, {.slots = 1, .deferred = how.split_backward ? 1 : 0});
  workspace_.allocate();
  products_->keep_weights(parameters_);
  for (const ops::ProductExtents& e : model::product_extents({&stage_, 1}, bounds)) products_->reserve(e);
  attention_->reserve(batch.max_length, config.head_dim(), stage_.has_relative_positions());
  for (const layers::LinearWeight& weight : stage_.linear_weights()) {
    layers::plan_scratch(weight, bounds, how.storage, scratch_);
  }
  scratch_.allocate();
  // The other sublayers of a stage evict a sublayer's weights from the caches before its next pass.
  constexpr std::int64_t most_others = std::int64_t{16} << 20;  // floats: more than caches hold
  const std::int64_t touched = 2 * parameters_.arena_size() * (how.sublayers_of_stage - 1);
  others_.assign(static_cast<std::size_t>(std::clamp<std::int64_t>(touched, 0, most_others)), 0.0f);
}

double ModelPiece::timed(const auto& work) {
  for (float& other : others_) other += 1.0f;
  const auto begin = std::chrono::steady_clock::now();
  work();
  core::wait_for_kernels();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

PassTimes ModelPiece::run() {
  layers::Engine engine{.products = *products_, .attention = *attention_, .scratch = &scratch_};
  const layers::StepContext context{.batch = batch_, .training = true, .key0 = 1, .key1 = 2};
  const auto nothing = [](std::int64_t) {};
  stage_.open(workspace_, context);
  if (!range_.embeddings) fill(stage_.input(0));
  PassTimes times{};
  times[0] = timed([&] {
    stage_.forward(engine, context);
    if (range_.head) stage_.loss(context, 1.0f);
  });
  if (!range_.head) fill(stage_.d_output(0));
  if (how_.split_backward) {
    times[1] = timed([&] { stage_.backward_input(engine, context, workspace_, 0, 0); });
    times[2] = timed([&] { stage_.backward_weight(engine, context, nothing, 0, 0); });
  } else {
    times[1] = timed([&] { stage_.backward(engine, context, workspace_, nothing); });
  }
  return times;
}

}  // namespace bert_hpc::app
