// Sublayers whose backward kernels begin the gradients of biases, γ and β, against those that read everything once
// more: the same gradients but for the order of additions. (GPU builds fuse them by default, CPU builds never; here
// both do.)
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "bert_hpc/layers/encoder_sublayers.hpp"
#include "bert_hpc/ops/random_fill.hpp"
#include "support/host_batch.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;

namespace {

constexpr std::int64_t heads = 3;

enum class Kind { attention, feed_forward };

struct Result {
  std::vector<std::vector<float>> gradients;  // by parameter
  std::vector<float> d_x;
  std::int64_t deferred_floats = 0;
};

layers::SublayerSettings settings_of(Kind kind, bool fuses) {
  layers::SublayerSettings settings;
  settings.kind = kind == Kind::attention ? layers::attention_sublayer({.heads = heads, .dropout = 0.2f})
                                          : layers::feed_forward_sublayer({.intermediate_size = 40});
  settings.hidden = 24;
  settings.hidden_dropout = 0.2f;
  settings.fuses_row_sums = fuses;
  return settings;
}

// Two micro-batches, whose gradients add up, of tokens and of the selected rows.
Result run(Kind kind, bool fuses, bool selects, bool at_once = false) {
  const layers::SublayerSettings settings = settings_of(kind, fuses);
  std::vector<core::ParameterSpec> specs;
  layers::declare_sublayer(settings, specs);
  core::ParameterStore store(specs, core::ParameterStore::Arenas::with_gradients);
  ops::fill_normal(store.change_values(), 0.3f, 1);
  const auto sublayer = layers::make_sublayer(settings, store);
  test::HostBatch batch({1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2}, std::vector<std::int32_t>(11, 0), {5, 4, 2});
  batch.set_classes({0, 1, 2});
  const core::MicroBatch view = batch.view();
  const layers::RowSelection first{view.targets.rows, view.targets.index};
  const layers::RowSelection* const selection = selects ? &first : nullptr;
  const std::int64_t tokens = view.tokens.count, rows = selects ? view.targets.rows.count : tokens;
  const std::int64_t rows_in = kind == Kind::attention ? tokens : rows;

  const auto products = ops::make_matrix_product(test::independent_products());
  const auto attention = ops::make_attention();
  for (const layers::LinearWeight& weight : sublayer->linear_weights(selects)) {
    products->reserve(weight.extents({.tokens = tokens, .sequences = 3, .max_length = 5, .selected = rows}));
  }
  attention->reserve(5, settings.hidden / heads);
  Result result;
  core::Workspace workspace;
  const auto saved = sublayer->make_saved();
  const auto deferred = sublayer->make_deferred();
  const auto take = [&] {  // first what it takes is counted
    const std::int64_t tiles = attention->dropout_tiles(5, settings.hidden / heads);
    sublayer->allocate_saved(workspace, tokens, selection, tiles, *saved);
    const std::int64_t begin = workspace.mark();
    sublayer->allocate_deferred(workspace, tokens, selection, *deferred);
    result.deferred_floats = workspace.mark() - begin;
  };
  take();
  const std::int64_t mark = workspace.mark();
  sublayer->plan_scratch(workspace, tokens, selection);
  workspace.release(0);
  workspace.allocate();
  take();
  CHECK(workspace.mark() == mark);
  deferred->at_once = at_once;
  layers::Engine engine{*products, *attention};
  const test::Matrix x = test::Matrix::random(rows_in, settings.hidden, 2);
  test::Matrix d_y = test::Matrix::random(rows, settings.hidden, 3);
  test::Matrix d_x(rows_in, settings.hidden);
  for (unsigned m = 0; m < 2; ++m) {
    const layers::StepContext context{.batch = view, .training = true, .key0 = 5 + m, .key1 = 6};
    sublayer->forward(engine, context, selection, layers::Stream(x), *saved);
    sublayer->backward_input(engine, context, selection, *saved, layers::StreamGradient(d_y), *deferred,
                             layers::StreamGradient(d_x), workspace);
    sublayer->backward_weight(engine, context, selection, *saved, *deferred, x);
  }
  core::wait_for_kernels();
  result.d_x.assign(d_x.values.begin(), d_x.values.end());
  for (const core::ParameterSlice& slice : store.slices()) {
    result.gradients.push_back(test::copy_of(store.gradients().data() + slice.offset, slice.size));
  }
  return result;
}

}  // namespace

TEST_CASE("gradients do not depend on whether backward kernels begin the sums over rows") {
  const auto kind = GENERATE(Kind::attention, Kind::feed_forward);
  const bool selects = GENERATE(false, true);
  const Result separate = run(kind, false, selects), fused = run(kind, true, selects);
  CHECK(fused.deferred_floats > separate.deferred_floats);
  // Kernels of either part of the backward pass may finish the sums: with the same bits.
  const Result at_once = run(kind, true, selects, true);
  CHECK(at_once.gradients == fused.gradients);
  CHECK(at_once.d_x == fused.d_x);
  // Sums over 22 rows in two orders, whose terms' magnitudes sum to at most 25: 2 · 22 · 2^-24 · 25.
  const float tolerance = 6.6e-5f;
  const auto largest = [tolerance](const std::vector<float>& a, const std::vector<float>& b, bool is_zero = false) {
    REQUIRE(a.size() == b.size());
    float difference = 0.0f, magnitude = 0.0f;
    for (std::size_t i = 0; i < a.size(); ++i) {
      difference = std::max(difference, std::abs(a[i] - b[i]));
      magnitude = std::max(magnitude, std::abs(a[i]));
    }
    if (is_zero) {
      CHECK(magnitude < tolerance);
    } else {
      CHECK(magnitude > 0.01f);
    }
    return difference;
  };
  CHECK(largest(separate.d_x, fused.d_x) < tolerance);
  REQUIRE(separate.gradients.size() == fused.gradients.size());
  for (std::size_t i = 0; i < separate.gradients.size(); ++i) {
    CAPTURE(i);
    const bool is_zero = kind == Kind::attention && i == 4;  // a bias of all keys shifts every score equally
    CHECK(largest(separate.gradients[i], fused.gradients[i], is_zero) < tolerance);
  }
}
