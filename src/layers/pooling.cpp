// Two sublayers without parameters behind recurrent ones: pooling to the rows that the head reads, and dropout.
#include <utility>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/layers/recurrent_sublayers.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/dropout.hpp"
#include "bert_hpc/ops/pooling.hpp"
#include "sublayer_kind.hpp"

namespace bert_hpc::layers {
namespace {

/// The members that a sublayer without parameters and without a layer norm leaves empty.
class PlainSublayer : public Sublayer {
 public:
  explicit PlainSublayer(const SublayerSettings& settings) : settings_(settings) {}

  std::vector<LinearWeight> linear_weights(bool) const override { return {}; }
  std::unique_ptr<SavedActivations> make_saved() const override { return std::make_unique<SavedActivations>(); }
  std::unique_ptr<WeightGradientInputs> make_deferred() const override {
    return std::make_unique<WeightGradientInputs>();
  }
  void allocate_saved(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection, std::int64_t,
                      SavedActivations& saved) const override {
    saved.output =
        workspace.take(selection != nullptr ? selection->rows.count : tokens, settings_.hidden, settings_.storage);
  }
  void allocate_deferred(core::Workspace&, std::int64_t, const RowSelection*, WeightGradientInputs&) const override {}
  void plan_scratch(core::Workspace&, std::int64_t, const RowSelection*) const override {}
  void backward_weight(Engine&, const StepContext&, const RowSelection*, const SavedActivations&,
                       const WeightGradientInputs&, ConstMatrix) const override {}

 protected:
  SublayerSettings settings_;
};

/// Costs of reading and writing rows.
LayerCosts costs_of_rows(const SublayerSettings& settings, double read, double written) {
  const double row = static_cast<double>(core::bytes_of(settings.storage) * settings.hidden);
  LayerCosts costs;
  costs.work.forward = {.bytes = row * (read + written), .moved = row * (read + written), .passes = 1};
  costs.work.backward_input = costs.work.forward;
  costs.saved_bytes = row * written;
  return costs;
}

struct PoolingSettings {
  std::optional<ops::Pooling> pooling;
};

class PoolingLayer : public PlainSublayer {
 public:
  PoolingLayer(const SublayerSettings& settings, const PoolingSettings& own, const core::ParameterStore&,
               const TensorGroup&)
      : PlainSublayer(settings), pooling_(own.pooling) {}

  static void declare(const SublayerSettings&, const PoolingSettings&, std::vector<core::ParameterSpec>&,
                      const TensorRank&) {}

  std::unique_ptr<SavedActivations> make_saved() const override { return std::make_unique<Saved>(); }
  void allocate_saved(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection,
                      std::int64_t dropout_tiles, SavedActivations& saved) const override {
    if (pooling_ == ops::Pooling::max && selection != nullptr) {
      static_cast<Saved&>(saved).winners = workspace.take<std::int32_t>(selection->rows.count, settings_.hidden);
    }
    PlainSublayer::allocate_saved(workspace, tokens, selection, dropout_tiles, saved);
  }
  void forward(Engine&, const StepContext& context, const RowSelection* selection, const Stream& x,
               SavedActivations& saved) const override {
    if (selection == nullptr) return ops::copy(x.y, saved.output);
    if (!pooling_) return ops::gather_rows(x.y, selection->index, saved.output);
    ops::pool_rows(*pooling_, x.y, context.batch.tokens, context.batch.lengths, saved.output,
                   static_cast<Saved&>(saved).winners);
  }
  void backward_input(Engine&, const StepContext& context, const RowSelection* selection, const SavedActivations& saved,
                      const StreamGradient& d_y, WeightGradientInputs&, const StreamGradient& d_x,
                      core::Workspace&) const override {
    if (selection == nullptr) return ops::copy(d_y.y, d_x.y);
    if (pooling_) {
      const auto& winners = static_cast<const Saved&>(saved).winners;
      return ops::pool_rows_backward(*pooling_, winners, context.batch.tokens, context.batch.lengths, d_y.y, d_x.y);
    }
    core::fill_on_device(d_x.y.data, 0, static_cast<std::size_t>(d_x.y.size() * core::bytes_of(d_x.y.type)));
    ops::scatter_add_rows(d_y.y, selection->index, d_x.y);
  }

 private:
  struct Saved : SavedActivations {
    Tensor<std::int32_t> winners;  ///< (rows, hidden): of maxima
  };
  std::optional<ops::Pooling> pooling_;
};

class PoolingKind final : public KindOf<PoolingLayer, PoolingSettings> {
 public:
  using KindOf::KindOf;

  std::string name() const override { return "pooling"; }
  bool mixes_tokens() const override { return true; }
  bool can_be_shared() const override { return false; }
  std::vector<SublayerLinear> linear_layers(const SublayerSettings&) const override { return {}; }
  LayerCosts costs(const SublayerSettings& settings, const BatchShape& batch, bool selects) const override {
    return costs_of_rows(settings, batch.tokens, selects ? batch.logit_positions : batch.tokens);
  }
  bool computes_like(const SublayerKind& other) const override {
    const auto* const same = dynamic_cast<const PoolingKind*>(&other);
    return same != nullptr && same->own_.pooling == own_.pooling;
  }
};

struct DropoutSettings {};

class DropoutLayer : public PlainSublayer {
 public:
  DropoutLayer(const SublayerSettings& settings, const DropoutSettings&, const core::ParameterStore&,
               const TensorGroup&)
      : PlainSublayer(settings) {}

  static void declare(const SublayerSettings&, const DropoutSettings&, std::vector<core::ParameterSpec>&,
                      const TensorRank&) {}

  void forward(Engine&, const StepContext& context, const RowSelection* selection, const Stream& x,
               SavedActivations& saved) const override {
    ops::dropout(drop(context), rows(context, selection), x.y, saved.output);
  }
  void backward_input(Engine&, const StepContext& context, const RowSelection* selection, const SavedActivations&,
                      const StreamGradient& d_y, WeightGradientInputs&, const StreamGradient& d_x,
                      core::Workspace&) const override {
    ops::dropout(drop(context), rows(context, selection), d_y.y, d_x.y);
  }

 private:
  core::Dropout drop(const StepContext& context) const {
    return context.dropout(settings_.hidden_dropout, settings_.first_site);
  }
  static const core::TokenRows& rows(const StepContext& context, const RowSelection* selection) {
    return selection != nullptr ? selection->rows : context.batch.tokens;
  }
};

class DropoutKind final : public KindOf<DropoutLayer, DropoutSettings> {
 public:
  using KindOf::KindOf;

  std::string name() const override { return "dropout"; }
  bool mixes_tokens() const override { return false; }
  bool can_be_shared() const override { return false; }
  std::vector<SublayerLinear> linear_layers(const SublayerSettings&) const override { return {}; }
  LayerCosts costs(const SublayerSettings& settings, const BatchShape& batch, bool selects) const override {
    const double rows = selects ? batch.logit_positions : batch.tokens;
    return costs_of_rows(settings, rows, rows);
  }
  bool computes_like(const SublayerKind& other) const override {
    return dynamic_cast<const DropoutKind*>(&other) != nullptr;
  }
};

}  // namespace

std::shared_ptr<const SublayerKind> pooling_sublayer(std::optional<ops::Pooling> pooling) {
  return std::make_shared<PoolingKind>(PoolingSettings{pooling});
}

std::shared_ptr<const SublayerKind> dropout_sublayer() {
  return std::make_shared<DropoutKind>(DropoutSettings{});
}

}  // namespace bert_hpc::layers
