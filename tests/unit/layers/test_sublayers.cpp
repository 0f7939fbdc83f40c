// Both sublayers of an encoder block, of all tokens and of selected rows, against plain loops in double precision and
// central differences of these.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <memory>
#include <numeric>
#include <vector>

#include "bert_hpc/layers/encoder_sublayers.hpp"
#include "plain_layers.hpp"
#include "support/host_batch.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using layers::SublayerSettings;
using test::Grid;

namespace {

constexpr std::int64_t hidden = 16, heads = 2, intermediate = 24;
const std::vector<std::int32_t> lengths = {3, 1, 5};  // of sequences
constexpr std::int64_t tokens = 9;
const std::vector<std::int32_t> selected = {0, 2, 3, 7};

// A result passes through about 30 roundings of 6e-8, a gradient through twice as many, and norms of rows with a
// standard deviation around 1 do not enlarge them: 2e-6 and 4e-6 relative to the largest element, or to 1. Twice that
// is allowed.
constexpr double result_tolerance = 4e-6, gradient_tolerance = 8e-6;

Grid plain_attention(const Grid& query, const Grid& key, const Grid& value, const std::vector<std::int32_t>& rows,
                     ops::AttentionMask mask) {
  Grid context(query.rows, hidden);
  constexpr std::int64_t width = hidden / heads;
  for (std::int64_t r = 0; r < query.rows; ++r) {
    std::int64_t begin = 0, end = 0;  // of the row's sequence
    for (const std::int32_t length : lengths) {
      begin = end;
      end += length;
      if (rows[static_cast<std::size_t>(r)] < end) break;
    }
    const std::int64_t at = rows[static_cast<std::size_t>(r)];
    begin = std::max(begin, at - mask.before);
    end = std::min(end, at + mask.after + 1);
    for (std::int64_t h = 0; h < heads; ++h) {
      std::vector<double> weights;
      for (std::int64_t k = begin; k < end; ++k) {
        double score = 0;
        for (std::int64_t c = h * width; c < (h + 1) * width; ++c) score += query(r, c) * key(k, c);
        weights.push_back(std::exp(score / std::sqrt(static_cast<double>(width))));
      }
      const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
      for (std::int64_t k = begin; k < end; ++k) {
        for (std::int64_t c = h * width; c < (h + 1) * width; ++c) {
          context(r, c) += weights[static_cast<std::size_t>(k - begin)] / sum * value(k, c);
        }
      }
    }
  }
  return context;
}

Grid rows_of(const Grid& x, const std::vector<std::int32_t>& rows) {
  Grid some(static_cast<std::int64_t>(rows.size()), x.columns);
  for (std::int64_t r = 0; r < some.rows; ++r) {
    for (std::int64_t c = 0; c < x.columns; ++c) some(r, c) = x(rows[static_cast<std::size_t>(r)], c);
  }
  return some;
}

/// x: of all tokens for attention, of the computed rows for feed-forward.
Grid plain_sublayer(const SublayerSettings& settings, ops::AttentionMask mask, const test::PlainParameters& parameters,
                    const Grid& x, const std::vector<std::int32_t>& rows) {
  const bool attends = settings.kind->mixes_tokens();
  const Grid residual = attends ? rows_of(x, rows) : x;
  Grid inner(0, 0);
  if (attends) {
    inner = plain_attention(plain_linear(residual, parameters, "query"), plain_linear(x, parameters, "key"),
                            plain_linear(x, parameters, "value"), rows, mask);
  } else {
    inner = plain_activation(plain_linear(x, parameters, "intermediate"), ops::Activation::gelu);
    if (parameters.contains("gate.weight")) {
      const Grid gate = plain_linear(x, parameters, "gate");
      for (std::size_t i = 0; i < gate.values.size(); ++i) inner.values[i] *= gate.values[i];
    }
  }
  Grid sum = plain_linear(inner, parameters, "output");
  for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += residual.values[i];
  return plain_norm(std::move(sum), parameters, settings.layer_norm_epsilon);
}

/// A sublayer with all that runs it.
struct Runner {
  Runner(const SublayerSettings& settings, bool selects)
      : batch(std::vector<std::int32_t>(tokens, 1), std::vector<std::int32_t>(tokens, 0), lengths),
        store(specs(settings), core::ParameterStore::Arenas::with_gradients, {}, arenas.memory()),
        parameters(test::random_parameters(store, 7)),
        products(ops::make_matrix_product(test::independent_products())),
        attention(ops::make_attention()),
        sublayer(layers::make_sublayer(settings, store)),
        saved(sublayer->make_saved()),
        deferred(sublayer->make_deferred()) {
    batch.set_masked(selected, std::vector<std::int32_t>(selected.size(), 0));
    view = batch.masked();
    selection = {view.targets.rows, view.targets.index};
    rows = selects ? &selection : nullptr;
    for (const layers::LinearWeight& weight : sublayer->linear_weights(selects)) {
      products->reserve(weight.extents({.tokens = tokens, .selected = std::ssize(selected)}));
    }
    attention->reserve(5, hidden / heads);
    allocate();
    workspace.allocate();
    allocate();
  }

  void allocate() {
    workspace.release(0);
    sublayer->allocate_saved(workspace, tokens, rows, 0, *saved);
    sublayer->allocate_deferred(workspace, tokens, rows, *deferred);
    sublayer->plan_scratch(workspace, tokens, rows);
  }

  static std::vector<core::ParameterSpec> specs(const SublayerSettings& settings) {
    std::vector<core::ParameterSpec> specs;
    layers::declare_sublayer(settings, specs);
    return specs;
  }

  test::Arenas arenas;
  test::HostBatch batch;
  core::MicroBatch view;
  layers::RowSelection selection;
  const layers::RowSelection* rows = nullptr;
  core::ParameterStore store;
  test::PlainParameters parameters;
  std::unique_ptr<ops::MatrixProduct> products;
  std::unique_ptr<ops::Attention> attention;
  layers::Engine engine{*products, *attention};
  core::Workspace workspace;
  std::unique_ptr<layers::Sublayer> sublayer;
  std::unique_ptr<layers::Sublayer::SavedActivations> saved;
  std::unique_ptr<layers::Sublayer::WeightGradientInputs> deferred;
};

}  // namespace

TEST_CASE("A sublayer and its gradients are those of plain loops", "[layers][sublayer]") {
  const std::string what = GENERATE("attention", "feed-forward", "gated");
  const bool attends = what == "attention";
  const auto mask = GENERATE(ops::AttentionMask::full(), ops::AttentionMask::causal(), ops::AttentionMask::window(1));
  if (!attends && mask != ops::AttentionMask::full()) return;
  const bool selects = GENERATE(false, true), fuses = GENERATE(false, true), at_once = GENERATE(false, true);
  SublayerSettings settings{.hidden = hidden, .hidden_dropout = 0, .fuses_row_sums = fuses};
  if (attends) settings.kind = layers::attention_sublayer({.heads = heads, .dropout = 0, .mask = mask});
  if (what == "feed-forward") settings.kind = layers::feed_forward_sublayer({.intermediate_size = intermediate});
  if (what == "gated") settings.kind = layers::gated_feed_forward_sublayer({.intermediate_size = intermediate});
  INFO(what << ", mask " << mask.before << ', ' << mask.after << ", selects " << selects << ", fuses row sums " << fuses
            << ", at once " << at_once);
  Runner runner(settings, selects);
  std::vector<std::int32_t> computed = selected;
  if (!selects) {
    computed.resize(tokens);
    std::iota(computed.begin(), computed.end(), 0);
  }
  const std::int64_t rows_in = attends ? tokens : std::ssize(computed);
  const test::Matrix x = test::Matrix::random(rows_in, hidden, 3);
  test::Matrix d_y = test::Matrix::random(std::ssize(computed), hidden, 4), d_x(rows_in, hidden);
  Grid plain_x(x.host()), plain_d_y(std::as_const(d_y).host());

  const layers::StepContext context{.batch = runner.view, .training = true};
  runner.sublayer->forward(runner.engine, context, runner.rows, layers::Stream(x), *runner.saved);
  const Grid expected = plain_sublayer(settings, mask, runner.parameters, plain_x, computed);
  const std::vector<float> y = test::floats_of(runner.saved->output);
  CHECK(relative_difference({y.data(), expected.rows, hidden}, expected) < result_tolerance);

  runner.deferred->at_once = at_once;
  runner.sublayer->backward_input(runner.engine, context, runner.rows, *runner.saved, layers::StreamGradient(d_y),
                                  *runner.deferred, layers::StreamGradient(d_x), runner.workspace);
  runner.sublayer->backward_weight(runner.engine, context, runner.rows, *runner.saved, *runner.deferred, x);
  const auto objective = [&] {
    return plain_dot(plain_sublayer(settings, mask, runner.parameters, plain_x, computed), plain_d_y);
  };
  CHECK(derivative_difference(std::as_const(d_x).host(), plain_x, objective) < gradient_tolerance);
  for (auto& [name, values] : runner.parameters) {
    INFO(name);
    const core::Tensor<float> gradient = runner.store.gradient(runner.store.find(name));
    CHECK(derivative_difference(gradient, values, objective) < gradient_tolerance);
  }
}

TEST_CASE("A causal sublayer costs the pairs of its mask", "[layers][sublayer]") {
  const auto attention_of = [](ops::AttentionMask mask, bool selects) {
    const SublayerSettings settings{.kind = layers::attention_sublayer({.heads = heads, .mask = mask}),
                                    .hidden = hidden};
    const layers::BatchShape batch{.tokens = 3 + 5, .squared_lengths = 9 + 25, .logit_positions = 2};
    return settings.kind->costs(settings, batch, selects).work.forward;
  };
  const layers::Work full = attention_of(ops::AttentionMask::full(), false),
                     causal = attention_of(ops::AttentionMask::causal(), false);
  CHECK(full.attention == 4 * hidden * (9 + 25));
  CHECK(causal.attention == 4 * hidden * (1 + 2 + 3 + 1 + 2 + 3 + 4 + 5));
  CHECK(full.flops - causal.flops == full.attention - causal.attention);
  CHECK(attention_of(ops::AttentionMask::causal(), true).attention == causal.attention * 2 / 8);
}
