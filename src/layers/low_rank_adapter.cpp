#include "bert_hpc/layers/low_rank_adapter.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/dropout.hpp"
#include "bert_hpc/ops/row_norms.hpp"

namespace bert_hpc::layers {

using ops::Write;

namespace {

// Sites of adapters are their own: they are drawn with another key than those of hidden states.
constexpr std::uint32_t adapter_key = 0x4C6F5241;
constexpr const char* magnitude_end = ".lora_magnitude_vector";

int index_of(const core::ParameterStore& parameters, const std::string& name) {
  const auto& slices = parameters.slices();
  const auto found =
      std::find_if(slices.begin(), slices.end(), [&name](const core::ParameterSlice& s) { return s.name == name; });
  return found == slices.end() ? -1 : static_cast<int>(found - slices.begin());
}

}  // namespace

std::string adapter_a(const std::string& layer) {
  return layer + ".lora_A.weight";
}

std::string adapter_b(const std::string& layer) {
  return layer + ".lora_B.weight";
}

std::string adapter_magnitude(const std::string& layer) {
  return layer + magnitude_end;
}

bool is_adapter_magnitude(const std::string& parameter) {
  return parameter.ends_with(magnitude_end);
}

int find_adapter_a(const core::ParameterStore& parameters, const std::string& layer) {
  const int own = index_of(parameters, adapter_a(layer));
  return own >= 0 ? own : index_of(parameters, adapter_a(layer.substr(0, layer.rfind('.'))));
}

void declare_adapters(const std::vector<AdaptedLayer>& layers, const AdapterSettings& settings,
                      std::vector<core::ParameterSpec>& specs, LayerSplit split, const TensorRank& tensor_rank) {
  const TensorRank all, &of_in = split == LayerSplit::inputs ? tensor_rank : all,
                        &of_out = split == LayerSplit::outputs ? tensor_rank : all;
  const bool has_one_a = settings.is_part(layers.front().name);
  for (const AdaptedLayer& layer : layers) {
    if (has_one_a && &layer != &layers.front()) break;
    specs.push_back({.name = adapter_a(has_one_a ? settings.joint : layer.name),
                     .shape = {settings.rank, of_in.share(layer.in)},
                     .joined = &layer != &layers.front(),
                     .shard = of_in.columns(layer.in),
                     .one_product = !has_one_a,  // with a selection of rows query has a product of its own
                     .initial = core::InitialValues::uniform,
                     .adapter = true});
  }
  for (const AdaptedLayer& layer : layers) {
    specs.push_back({.name = adapter_b(layer.name),
                     .shape = {settings.rank, of_out.share(layer.out)},
                     .shard = of_out.columns(layer.out),
                     .one_product = true,
                     .initial = core::InitialValues::zeros,
                     .adapter = true});
  }
  if (!settings.magnitudes) return;
  // They decay, as they do in Transformers' Trainer, where only biases and norms do not.
  for (const AdaptedLayer& layer : layers) {
    specs.push_back({.name = adapter_magnitude(layer.name),
                     .shape = {of_out.share(layer.out)},
                     .shard = of_out.rows(layer.out),
                     .initial = core::InitialValues::zeros,
                     .adapter = true});
  }
}

void plan_scratch(const LinearWeight& weight, const BatchBounds& bounds, DataType type, core::Workspace& scratch) {
  if (weight.scratch_columns.empty() && weight.scratch_bytes_of_sequence == 0) return;
  const ScratchScope scope(scratch);
  const DataType widest = weight.fixed_rows > 0 ? DataType::fp32 : type;  // gradients of a table are sums in fp32
  for (const std::int64_t columns : weight.scratch_columns) scratch.take(weight.rows(bounds), columns, widest);
  scratch.take<unsigned char>(bounds.sequences, weight.scratch_bytes_of_sequence);
  scratch.take<float>(1, core::floats_of_cache_line);  // in another order, rounding to cache lines takes up to one more
}

Adapters::Adapters(const core::ParameterStore& parameters, int weight, std::int64_t joined,
                   const AdapterSettings& settings, std::uint32_t site, const TensorGroup& group)
    : parameters_(&parameters),
      first_weight_(weight),
      joined_(joined),
      scale_(settings.scale),
      dropout_(settings.dropout),
      site_(site),
      group_(group) {
  constexpr std::string_view end = ".weight";
  std::int64_t column = 0;
  for (std::int64_t i = 0; settings.any() && i < joined; ++i) {
    const core::ParameterSlice& slice = parameters.slices()[static_cast<std::size_t>(weight + i)];
    const std::string layer = slice.name.substr(0, slice.name.size() - end.size());
    const int a = index_of(parameters, adapter_b(layer)) < 0 ? -1 : find_adapter_a(parameters, layer);
    if (a >= 0) {
      const core::ParameterSlice& slice_of_a = parameters.slices()[static_cast<std::size_t>(a)];
      if (none()) first_a_ = a;
      rank_ = slice_of_a.rows;
      has_one_a_ = slice_of_a.name != adapter_a(layer);
      split_ = slice_of_a.shard.is_whole() ? LayerSplit::outputs : LayerSplit::inputs;
      first_input_ = slice_of_a.shard.begin;
      const int magnitude = index_of(parameters, adapter_magnitude(layer));
      have_magnitudes_ = magnitude >= 0;
      core::require(magnitude < 0 || !slice.trainable, "adapter: a trained weight beside a magnitude");
      parts_.push_back({.weight = static_cast<int>(weight + i),
                        .b = parameters.find(adapter_b(layer)),
                        .magnitude = magnitude,
                        .column = column});
    }
    column += slice.rows;
  }
  outputs_ = column;
  if (count() > 1) series_ = series();
}

/// The products with b̂, unless their operands lie at different distances.
ops::ProductSeries Adapters::series() const {
  const auto& slices = parameters_->slices();
  const auto slice = [&](std::size_t i) -> const core::ParameterSlice& {
    return slices[static_cast<std::size_t>(parts_[i].b)];
  };
  const ops::ProductSeries all{.count = static_cast<std::int64_t>(count()),
                               .x = parts_[1].column - parts_[0].column,
                               .w = slice(1).offset - slice(0).offset,
                               .y = has_one_a_ ? 0 : rank_};
  for (std::size_t i = 1; i < count(); ++i) {
    const bool fits = slice(i).columns == slice(0).columns && parts_[i].column - parts_[i - 1].column == all.x &&
                      slice(i).offset - slice(i - 1).offset == all.w;
    if (!fits) return {};
  }
  return all;
}

Tensor<const float> Adapters::a() const {
  const Tensor<const float> first = parameters_->value(first_a_);
  return {first.data, has_one_a_ ? rank_ : rank_ * static_cast<std::int64_t>(count()), first.columns};
}

Tensor<const float> Adapters::b(std::size_t adapter) const {
  return parameters_->value(parts_[adapter].b);
}

void Adapters::list_weights(bool selected, std::vector<LinearWeight>& weights) const {
  if (none()) return;
  LinearWeight all_a{.slice = first_a_, .name = name(first_a_), .weights = a(), .selected = selected};
  if (dropout_ > 0) all_a.scratch_columns.push_back(a().columns);
  if (have_magnitudes()) all_a.scratch_columns.push_back(all_w().rows);
  if (has_one_a_) all_a.scratch_columns.push_back(rank_);
  weights.push_back(std::move(all_a));
  for (std::size_t i = 0; i < count(); ++i) {
    const int slice = parts_[i].b;
    weights.push_back(
        {.slice = slice, .name = name(slice), .weights = b(i), .selected = selected, .series = series_.count});
    if (!have_magnitudes() || joined_ == 1) continue;
    weights.push_back(
        {.slice = parts_[i].weight, .name = name(parts_[i].weight), .weights = w(i), .selected = selected});
  }
}

bool Adapters::drops(const LinearRows& rows) const {
  if (dropout_ <= 0) return false;
  core::require(rows.context != nullptr, "adapter: dropout needs to know whose rows it is given");
  return rows.context->training;
}

core::Dropout Adapters::dropout(const LinearRows& rows) const {
  core::Dropout dropout = rows.context->dropout(dropout_, site_);
  dropout.key1 ^= adapter_key;
  dropout.first_column = first_input_;
  return dropout;
}

ConstMatrix Adapters::dropped(const Engine& engine, const LinearRows& rows, ConstMatrix x) const {
  if (!drops(rows)) return x;
  const Matrix kept = engine.scratch->take(x.rows, x.columns, x.type);
  ops::dropout(dropout(rows), *rows.rows, x, kept);
  return kept;
}

/// s·x·aᵀ (rows, adapters · rank).
ConstMatrix Adapters::inner_of_x(ops::MatrixProduct& products, const LinearRows& rows, ConstMatrix x) const {
  const Matrix inner = rows.of_x;
  core::require(inner.rows == x.rows && inner.columns == a().rows, "adapter: no memory to keep a part of x");
  products.forward_series({}, scale_, x, a(), inner);
  return inner;
}

/// s·d_y·b̂ᵀ (rows, adapters · rank); of a joint layer the sum over its parts (rows, rank).
ConstMatrix Adapters::inner_of_d_y(const Engine& engine, ops::MatrixProduct& products, const LinearRows& rows,
                                   ConstMatrix d_y) const {
  const Matrix inner = rows.of_d_y;
  core::require(inner.rows == d_y.rows && inner.columns == a().rows, "adapter: no memory to keep a part of d_y");
  if (!has_one_a_) {
    for (std::size_t i = 0; i < count(); i += in_series()) {
      products.forward_series(series_, scale_, columns_of(d_y, i), b(i), inner_of(inner, i));
    }
    return inner;
  }
  const ScratchScope scope(*engine.scratch);
  const Matrix part = engine.scratch->take(inner.rows, inner.columns, inner.type);
  for (std::size_t i = 0; i < count(); ++i) {
    products.forward_series({}, scale_, columns_of(d_y, i), b(i), i == 0 ? inner : part);
    if (i > 0) ops::add(part, inner);
  }
  return inner;
}

void Adapters::forward(const Engine& engine, ops::MatrixProduct& products, const LinearRows& rows, ConstMatrix x,
                       Matrix y) const {
  if (none()) return;
  const ScratchScope scope(*engine.scratch);
  const ConstMatrix inner = inner_of_x(products, rows, dropped(engine, rows, x));
  for (std::size_t i = 0; i < count(); i += in_series()) {
    products.backward_input_series(series_, inner_of(inner, i), b(i), columns_of(y, i), Write::accumulate);
  }
}

void Adapters::backward_input(const Engine& engine, ops::MatrixProduct& products, const LinearRows& rows,
                              ConstMatrix d_y, Matrix d_x) const {
  if (none()) return;
  const ScratchScope scope(*engine.scratch);
  const ConstMatrix inner = inner_of_d_y(engine, products, rows, d_y);
  if (!drops(rows)) return products.backward_input(inner, a(), d_x, Write::accumulate);
  const Matrix added = engine.scratch->take(d_x.rows, d_x.columns, d_x.type);
  products.backward_input(inner, a(), added, Write::replace);
  ops::dropout(dropout(rows), *rows.rows, added, added);
  ops::add(added, d_x);
}

/// The series of the gradients of b̂: gradients may lie at other distances than their parameters.
ops::ProductSeries Adapters::series_of_gradients() const {
  if (in_series() == 1) return {};
  const auto gradient = [&](std::size_t i) { return parameters_->gradient_matrix(parts_[i].b); };
  const auto address = [&](std::size_t i) { return reinterpret_cast<std::intptr_t>(gradient(i).data); };
  const std::intptr_t bytes = address(1) - address(0), element = core::bytes_of(gradient(0).type);
  ops::ProductSeries all = series_;
  all.w = bytes / element;
  for (std::size_t i = 1; i < count(); ++i) {
    const bool fits = address(i) - address(i - 1) == bytes && gradient(i).type == gradient(0).type;
    if (!fits || bytes <= 0 || bytes % element != 0) return {};
  }
  return all;
}

/// gradient = or += d_yᵀ·x, summed over the ranks of the group where these share out what `partial_in` names.
void Adapters::write_gradient(Write write, ops::MatrixProduct& products, ConstMatrix d_y, ConstMatrix x,
                              LayerSplit partial_in, Matrix gradient) const {
  if (!shares(partial_in)) return products.backward_weight(d_y, x, gradient, nullptr, write);
  const Matrix sum = group_.partial(gradient, gradient.rows);
  products.backward_weight(d_y, x, sum, nullptr, Write::replace);
  group_.all_reduce(sum.as<float>(), comm::Reduction::sum);
  if (write == Write::replace) return ops::copy(sum, gradient);
  ops::add(sum, gradient);
}

void Adapters::backward_weight(const Engine& engine, ops::MatrixProduct& products, const LinearRows& rows,
                               ConstMatrix d_y, ConstMatrix x) const {
  if (none() || !trained()) return;
  const ScratchScope scope(*engine.scratch);
  const Matrix scratch = have_magnitudes() ? take_like(engine, d_y) : Matrix();
  if (have_magnitudes()) ops::scale_columns({.factors = factors(engine).factors}, d_y, scratch, Write::replace);
  const ConstMatrix of_y = have_magnitudes() ? ConstMatrix(scratch) : d_y;
  const ConstMatrix kept = dropped(engine, rows, x), of_x = rows.of_x;
  const Matrix first = parameters_->gradient_matrix(first_a_);
  // The parts of a joint layer after the first add to what that has written.
  const bool adds = has_one_a_ && parameters_->slices()[static_cast<std::size_t>(first_weight_)].joined;
  write_gradient(adds ? Write::accumulate : engine.weight_gradients, products, rows.of_d_y, kept, LayerSplit::outputs,
                 {first.data, a().rows, first.columns, first.columns, first.type});
  const ops::ProductSeries of_b = shares(LayerSplit::inputs) ? ops::ProductSeries() : series_of_gradients();
  for (std::size_t i = 0; i < count(); i += static_cast<std::size_t>(of_b.count)) {
    const ConstMatrix inner = inner_of(of_x, i), d_layer = columns_of(of_y, i);
    const Matrix gradient = parameters_->gradient_matrix(parts_[i].b);
    if (of_b.count > 1) {
      products.backward_weight_series(of_b, inner, d_layer, gradient, engine.weight_gradients);
    } else {
      write_gradient(engine.weight_gradients, products, inner, d_layer, LayerSplit::inputs, gradient);
    }
  }
  if (have_magnitudes()) add_magnitude_gradients(engine, products, d_y, kept, of_x, scratch);
}

}  // namespace bert_hpc::layers
