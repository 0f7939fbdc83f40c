// A feed-forward sublayer in FP8 whose products round GELU and its gradient, against one that keeps both in memory.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>

#include "bert_hpc/layers/encoder_sublayers.hpp"
#include "bert_hpc/ops/random_fill.hpp"
#include "support/fp8_case.hpp"
#include "support/host_batch.hpp"
#include "support/host_fp8_product.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using test::DataType;
using test::StoredMatrix;

namespace {

constexpr std::int64_t hidden = 32, intermediate = 48;
constexpr int micro_batches = 2;

struct Result {
  std::vector<StoredMatrix> y, d_x;           // by micro-batch
  std::vector<std::vector<float>> gradients;  // by parameter
};

class Products final : public test::HostFp8Product {
 public:
  Products(ops::MatrixProduct& inner, std::vector<ops::Fp8Layer> all, bool rounds)
      : HostFp8Product(inner, std::move(all), true), rounds_(rounds) {}

 private:
  bool rounds_operands() const override { return rounds_; }
  bool rounds_;
};

StoredMatrix copied(const core::Matrix& x) {
  StoredMatrix copy(x.type, x.rows, x.columns);
  core::copy_on_device(x.data, core::Matrix(copy).data, static_cast<std::size_t>(x.size() * core::bytes_of(x.type)));
  return copy;
}

/// `together`: gradients of weights follow when those of all inputs are computed.
Result run(bool rounds, bool at_once, bool together) {
  layers::SublayerSettings settings;
  settings.kind = layers::feed_forward_sublayer({.intermediate_size = intermediate});
  settings.hidden = hidden;
  settings.hidden_dropout = 0.2f;
  settings.storage = DataType::bf16;
  settings.fuses_row_sums = true;
  std::vector<core::ParameterSpec> specs;
  layers::declare_sublayer(settings, specs);
  core::ParameterStore store(specs, core::ParameterStore::Arenas::with_gradients);
  ops::fill_normal(store.change_values(), 0.3f, 1);
  const auto sublayer = layers::make_sublayer(settings, store);
  test::HostBatch batch(std::vector<std::int32_t>(150, 1), std::vector<std::int32_t>(150, 0), {100, 50});
  const core::MicroBatch view = batch.view();
  const std::int64_t tokens = view.tokens.count;

  const auto inner = ops::make_matrix_product("", {.compute = DataType::bf16});
  inner->keep_weights(store);
  std::vector<ops::Fp8Layer> fp8_layers;
  const std::vector<layers::LinearWeight> weights = sublayer->linear_weights(false);
  for (const layers::LinearWeight& weight : weights) {
    fp8_layers.push_back({.id = weight.slice, .name = weight.name, .weight = weight.weights});
  }
  const auto fp8 = std::make_unique<Products>(*inner, fp8_layers, rounds);
  for (const layers::LinearWeight& weight : weights) {
    const ops::ProductExtents extents = weight.extents({.tokens = tokens, .sequences = 2, .max_length = 100});
    inner->reserve(extents);
    fp8->reserve(extents);
  }
  for (std::size_t layer = 0; layer < weights.size(); ++layer) {
    test::note(fp8->scales(), layer, ops::Fp8Operand::x, 8.0f);
    test::note(fp8->scales(), layer, ops::Fp8Operand::d_y, 8.0f);
  }
  fp8->scales().end_step();
  fp8->note_weights();
  fp8->round_weights();
  const auto attention = ops::make_attention();
  layers::Engine engine{*inner, *attention, fp8.get()};

  core::Workspace workspace;
  std::unique_ptr<layers::Sublayer::SavedActivations> saved[micro_batches];
  std::unique_ptr<layers::Sublayer::WeightGradientInputs> deferred[micro_batches];
  for (const bool takes : {false, true}) {
    if (takes) workspace.allocate();
    for (int m = 0; m < micro_batches; ++m) {
      if (!takes) saved[m] = sublayer->make_saved(), deferred[m] = sublayer->make_deferred();
      sublayer->allocate_saved(workspace, tokens, nullptr, 0, *saved[m]);
      sublayer->allocate_deferred(workspace, tokens, nullptr, *deferred[m]);
      deferred[m]->at_once = at_once;
    }
    if (!takes) workspace.release(0);
  }

  Result result;
  std::vector<StoredMatrix> x, d_y;
  for (unsigned m = 0; m < micro_batches; ++m) {
    x.push_back(StoredMatrix::random(DataType::bf16, tokens, hidden, 2 + m, 1.0f));
    d_y.push_back(StoredMatrix::random(DataType::bf16, tokens, hidden, 12 + m, 1.0f));
    result.d_x.emplace_back(DataType::bf16, tokens, hidden);
  }
  const auto context = [&](unsigned m) {
    return layers::StepContext{.batch = view, .training = true, .key0 = 5 + m, .key1 = 6};
  };
  const auto backward_weight = [&](unsigned m) {
    sublayer->backward_weight(engine, context(m), nullptr, *saved[m], *deferred[m], x[m]);
  };
  for (unsigned m = 0; m < micro_batches; ++m) {
    sublayer->forward(engine, context(m), nullptr, layers::Stream(x[m]), *saved[m]);
    result.y.push_back(copied(saved[m]->output));
    sublayer->backward_input(engine, context(m), nullptr, *saved[m], layers::StreamGradient(d_y[m]), *deferred[m],
                             layers::StreamGradient(result.d_x[m]), workspace);
    if (!together) backward_weight(m);
  }
  for (unsigned m = 0; together && m < micro_batches; ++m) backward_weight(m);
  core::wait_for_kernels();
  for (const core::ParameterSlice& slice : store.slices()) {
    result.gradients.push_back(test::copy_of(store.gradients().data() + slice.offset, slice.size));
  }
  return result;
}

}  // namespace

TEST_CASE("A feed-forward sublayer has the same bits if its products round GELU", "[layers][fp8]") {
  const bool at_once = GENERATE(true, false), together = GENERATE(false, true);
  if (core::is_gpu_build()) SKIP("The host sees the activations of CPU builds alone.");
  if (at_once && together) return;  // at_once: a micro-batch's gradients of weights follow those of its inputs
  CAPTURE(at_once, together);
  const Result stored = run(false, at_once, together), rounded = run(true, at_once, together);
  for (int m = 0; m < micro_batches; ++m) {
    CHECK(stored.y[m].same_bits(rounded.y[m]));
    CHECK(stored.d_x[m].same_bits(rounded.d_x[m]));
  }
  REQUIRE(stored.gradients.size() == rounded.gradients.size());
  for (std::size_t i = 0; i < stored.gradients.size(); ++i) {
    CAPTURE(i);
    REQUIRE(stored.gradients[i].size() == rounded.gradients[i].size());
    double largest = 0, difference = 0;
    for (std::size_t j = 0; j < stored.gradients[i].size(); ++j) {
      largest = std::max(largest, std::abs(static_cast<double>(stored.gradients[i][j])));
      difference =
          std::max(difference, std::abs(static_cast<double>(stored.gradients[i][j]) - rounded.gradients[i][j]));
    }
    CHECK(largest > 0.1);
    // Weights: equal. Vectors: sums over 300 rows in two orders, whose terms' magnitudes sum to at most 600.
    const bool is_weight = stored.gradients[i].size() > 2 * intermediate;
    CHECK(difference <= (is_weight ? 0.0 : 2 * 300 * 0x1p-24 * 600));
  }
}
