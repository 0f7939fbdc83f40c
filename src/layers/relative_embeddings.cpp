#include "relative_embeddings.hpp"

#include <numeric>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/dropout.hpp"
#include "bert_hpc/ops/flat.hpp"
#include "bert_hpc/ops/layer_norm.hpp"

namespace bert_hpc::layers {
namespace {

// The table's dropout has a site of its block, with a key of its own.
constexpr std::uint32_t table_key = 0x52656C50;

template <class T>
core::Buffer<T> on_device(const std::vector<T>& values) {
  core::Buffer<T> buffer(std::ssize(values));
  core::copy_to_device(values.data(), buffer.data(), values.size() * sizeof(T));
  return buffer;
}

std::vector<std::int32_t> numbers_of_rows(std::int64_t rows) {
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(2 + 2 * rows));
  numbers[1] = static_cast<std::int32_t>(rows);
  std::iota(numbers.end() - rows, numbers.end(), 0);
  return numbers;
}

std::span<float> flat(const Tensor<float>& x) {
  return {x.data, static_cast<std::size_t>(x.size())};
}

}  // namespace

RelativeEmbeddings::RelativeEmbeddings(const SublayerSettings& settings, const RelativePositionSettings& own,
                                       const core::ParameterStore& parameters, const TensorGroup& group,
                                       const LinearSettings& query_key)
    : parameters_(&parameters),
      group_(group),
      hidden_(settings.hidden),
      buckets_(2 * own.span),
      width_(group.tensor_rank().share(settings.hidden)),
      epsilon_(settings.layer_norm_epsilon),
      dropout_(settings.hidden_dropout),
      site_(settings.first_site),
      table_(parameters.find(own.table_in_block)),
      norm_(parameters, own.norm_in_block, NormKind::layer),
      query_key_(parameters, query_key),
      trains_table_(parameters.is_trainable(table_) || norm_.is_trained()),
      reach_(own.max_distance),
      bucket_of_distance_(ops::deberta_buckets(own.span, own.max_distance, reach_)),
      distances_(on_device(bucket_of_distance_)),
      numbers_(on_device(numbers_of_rows(buckets_))),
      sample_(on_device(std::vector<std::int64_t>{0})) {
  batch_.sequences = 1;
  batch_.max_length = buckets_;
  batch_.sample = sample_.data();
  batch_.tokens.count = buckets_;
  batch_.tokens.offsets = numbers_.data();
  batch_.tokens.sequence = numbers_.data() + 2;
  batch_.tokens.position = numbers_.data() + 2 + buckets_;
}

void RelativeEmbeddings::declare(const SublayerSettings& settings, const RelativePositionSettings& own,
                                 std::vector<core::ParameterSpec>& specs) {
  const auto original = [](const std::string& in_block, const std::string& name) {
    return in_block == name ? std::string() : name;
  };
  specs.push_back({.name = own.table_in_block,
                   .shape = {2 * own.span, settings.hidden},
                   .copy_of = original(own.table_in_block, own.table)});
  declare_norm(specs, own.norm_in_block, settings.hidden, NormKind::layer, original(own.norm_in_block, own.norm));
}

void RelativeEmbeddings::allocate_saved(core::Workspace& workspace, DataType type, Saved& saved) const {
  saved.sum = workspace.take(buckets_, hidden_, DataType::fp32);
  saved.norm = workspace.take(buckets_, hidden_, DataType::fp32);
  saved.input = type == DataType::fp32 ? saved.norm : workspace.take(buckets_, hidden_, type);
  saved.projected = workspace.take(buckets_, 2 * width_, type);
  saved.inner = query_key_.take_inner(workspace, buckets_, type);
  saved.statistics = workspace.take<float>(2, buckets_);
}

void RelativeEmbeddings::allocate_deferred(core::Workspace& workspace, DataType type, Deferred& deferred) const {
  deferred.d_projected = workspace.take(buckets_, 2 * width_, type);
  deferred.d_input = workspace.take(buckets_, hidden_, DataType::fp32);
  deferred.inner = query_key_.take_inner(workspace, buckets_, type);
}

void RelativeEmbeddings::list_weights(std::vector<LinearWeight>& weights) const {
  const std::size_t first = weights.size();
  query_key_.list_weights(false, weights);
  for (std::size_t i = first; i < weights.size(); ++i) weights[i].fixed_rows = buckets_;
}

RelativeEmbeddings::Rows RelativeEmbeddings::rows_of(const StepContext& context) const {
  const std::int64_t farthest = std::min<std::int64_t>(context.batch.max_length - 1, reach_);
  // Buckets descend with the distance.
  const std::int64_t begin = bucket_of_distance_[static_cast<std::size_t>(reach_ + farthest)];
  const std::int64_t last = bucket_of_distance_[static_cast<std::size_t>(reach_ - farthest)];
  core::TokenRows rows = batch_.tokens;
  rows.count = last - begin + 1;
  rows.position += begin;
  return {begin, rows.count, rows};
}

StepContext RelativeEmbeddings::table_context(const StepContext& context) const {
  return {.batch = batch_,
          .training = context.training,
          .key0 = context.key0 ^ table_key,
          .key1 = context.key1,
          .number = context.number,
          .forward_only = context.forward_only};
}

void RelativeEmbeddings::forward(const Engine& engine, const StepContext& step, const Saved& saved) const {
  const StepContext context = table_context(step);
  const Rows rows = rows_of(step);
  const core::Dropout drop = context.dropout(dropout_, site_), none = context.dropout(0.0f, site_);
  const Matrix sum = rows.of(saved.sum), norm = rows.of(saved.norm), input = rows.of(saved.input);
  ops::copy(rows.of(ConstMatrix(parameters_->value(table_))), sum);
  ops::residual_layer_norm_forward(none, rows.token_rows, sum, nullptr, {}, norm_.gamma(), norm_.beta(), epsilon_, norm,
                                   norm_.mean(saved.statistics), norm_.rstd(saved.statistics));
  if (drop.probability > 0) ops::dropout(drop, rows.token_rows, norm, norm);
  if (input.type != norm.type) ops::copy(norm, input);
  query_key_.forward(engine, input, rows.of(saved.projected),
                     {&context, &rows.token_rows, saved.inner.data == nullptr ? Matrix() : rows.of(saved.inner)});
}

ops::RelativePositions RelativeEmbeddings::view(const Saved& saved) const {
  const ConstMatrix projected = saved.projected;
  return {projected.column_range(width_, width_), projected.column_range(0, width_), distances()};
}

void RelativeEmbeddings::backward_input(const StepContext& context, Tensor<const float> d_keys,
                                        Tensor<const float> d_queries, const Deferred& deferred) const {
  const Rows rows = rows_of(context);
  const Matrix d = rows.of(deferred.d_projected);
  const core::MicroBatch& batch = context.batch;
  ops::sum_rows_by_bucket(distances(), batch.sequences, batch.tokens, d_queries, rows.begin, d.column_range(0, width_));
  ops::sum_rows_by_bucket(distances(), batch.sequences, batch.tokens, d_keys, rows.begin,
                          d.column_range(width_, width_));
}

void RelativeEmbeddings::backward_weight(const Engine& engine, const StepContext& step, const Saved& saved,
                                         const Deferred& deferred) const {
  const StepContext context = table_context(step);
  const Rows rows = rows_of(step);
  const auto part = [&](const Matrix& all) { return all.data == nullptr ? Matrix() : rows.of(all); };
  const LinearRows inner = {&context, &rows.token_rows, part(saved.inner), part(deferred.inner)};
  const Matrix d_projected = rows.of(deferred.d_projected), d_input = rows.of(deferred.d_input);
  Engine adding = engine;  // to what the products of tokens have replaced
  adding.weight_gradients = ops::Write::accumulate;
  if (trains_table_ || query_key_.is_adapted()) {  // adapters need what it leaves of d_projected
    query_key_.backward_input(adding, d_projected, d_input, ops::Write::replace, inner);
  }
  query_key_.backward_weight(adding, d_projected, rows.of(ConstMatrix(saved.input)), inner);
  if (!trains_table_) return;
  const core::Dropout drop = context.dropout(dropout_, site_), none = context.dropout(0.0f, site_);
  const Tensor<float> d = d_input.as<float>();
  if (group_.shared()) group_.all_reduce(d, comm::Reduction::sum);
  if (drop.probability > 0) ops::dropout(drop, rows.token_rows, d_input, d_input);
  const ConstMatrix sum = rows.of(ConstMatrix(saved.sum));
  const float *const mean = norm_.mean(saved.statistics), *const rstd = norm_.rstd(saved.statistics);
  ops::layer_norm_backward_weight(d_input, sum, mean, rstd, norm_.d_gamma(), norm_.d_beta(), ops::Write::accumulate);
  ops::residual_layer_norm_backward(none, rows.token_rows, d_input, sum, norm_.gamma(), mean, rstd, d_input, {});
  if (!parameters_->is_trainable(table_)) return;
  const Tensor<float> d_table = parameters_->gradient(table_);
  ops::accumulate(flat(d), flat({d_table.row(rows.begin), rows.count, hidden_}));
}

}  // namespace bert_hpc::layers
