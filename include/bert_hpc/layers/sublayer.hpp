// The two sublayers of a block of BERT's encoder (Devlin et al. 2019; post-norm as in Vaswani et al. 2017), each a
// residual step of its own, so that a pipeline can be cut between them:
//   attention     y = layer_norm(x + dropout(attention(x)·Woᵀ + bo)),
//   feed-forward  y = layer_norm(x + dropout(gelu(x·Wiᵀ + bi)·W2ᵀ + b2)).
//
// The last block of a model computes a selection of its rows only, those that the head reads: a classifier one row a
// sequence, masked language modelling 15% of them. Its attention computes keys and values for every token, all else for
// the selected rows alone, and its feed-forward is given nothing but these: the same numbers for a fraction of the
// work.
//
// In a tensor group a rank has the rows of the query, key, value and intermediate weights that belong to its heads and
// feed-forward columns, and those columns of the two output weights; biases of the output weights and layer norms are
// whole. What lies between products is kept in pieces of token rows and gathered for each product that needs it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/core/workspace.hpp"
#include "bert_hpc/layers/architecture.hpp"
#include "bert_hpc/layers/costs.hpp"
#include "bert_hpc/layers/linear.hpp"
#include "bert_hpc/layers/step_context.hpp"
#include "bert_hpc/layers/tensor_group.hpp"
#include "bert_hpc/ops/activation.hpp"

namespace bert_hpc::layers {

/// Names of a sublayer's parameters without ".weight" and ".bias".
struct SublayerNames {
  std::string query = "query", key = "key", value = "value";  ///< attention's first products
  std::string intermediate = "intermediate";                  ///< the feed-forward's first product
  std::string output = "output", norm = "norm";               ///< the last product and the layer norm
  bool operator==(const SublayerNames&) const = default;
};

struct SublayerSettings {
  enum class Kind { attention, feed_forward };
  Kind kind = Kind::attention;
  SublayerNames names{};
  std::int64_t hidden = 0, heads = 0, intermediate = 0;
  float layer_norm_epsilon = 1e-12f;
  float hidden_dropout = 0.1f, attention_dropout = 0.1f;
  NormPlace norm_place = NormPlace::after;
  NormKind norm_kind = NormKind::layer;
  bool biases = true;  ///< of the products
  Activation activation = Activation::gelu;
  Gate gate = Gate::none;
  AttentionMask mask = AttentionMask::full;
  DataType storage = DataType::fp32;  ///< of activations
  std::uint32_t first_site = 0;       ///< of its block, whose dropout sites are first_site … first_site + 2
  AdapterSettings adapters{};         ///< of its linear layers
  bool fuses_row_sums = false;        ///< the kernels of backward_input begin the gradients of vectors
  bool operator==(const SublayerSettings&) const = default;
};

class Sublayer {
 public:
  virtual ~Sublayer() = default;

  /// The weights of all its products, adapters included, where it computes a selection of its rows or all of them.
  virtual std::vector<LinearWeight> linear_weights(bool selects) const = 0;

  /// What backward needs of forward, in the workspace. Each kind of sublayer derives its own.
  struct SavedActivations {
    virtual ~SavedActivations() = default;
    Matrix output;                   ///< (rows that it computes here, hidden): y
    std::int64_t dropout_bytes = 0;  ///< of the workspace, for what attention's dropout keeps
  };

  /// What the weight gradients need of the gradients.
  struct WeightGradientInputs {
    virtual ~WeightGradientInputs() = default;
    /// backward_weight() follows at once: kernels of backward_input() may add to the gradients too.
    bool at_once = false;
  };

  /// Objects for micro-batches in flight, made once; the allocate functions give them memory for one micro-batch.
  virtual std::unique_ptr<SavedActivations> make_saved() const = 0;
  virtual std::unique_ptr<WeightGradientInputs> make_deferred() const = 0;

  /// `saved` and `deferred` must come from this sublayer. `selection` is null where every row is computed;
  /// `dropout_tiles` as in BatchBounds, 0 without a backward pass.
  virtual void allocate_saved(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection,
                              std::int64_t dropout_tiles, SavedActivations& saved) const = 0;
  virtual void allocate_deferred(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection,
                                 WeightGradientInputs& deferred) const = 0;

  /// x (this rank's piece, hidden), of all tokens for attention, of the rows that it computes for feed-forward; the
  /// result is saved.output.
  virtual void forward(Engine& engine, const StepContext& context, const RowSelection* selection, ConstMatrix x,
                       SavedActivations& saved) const = 0;

  /// d_y (piece, hidden) must stay until backward_weight; d_x, shaped as x, is replaced. Takes scratch from the
  /// workspace and releases it.
  virtual void backward_input(Engine& engine, const StepContext& context, const RowSelection* selection,
                              const SavedActivations& saved, Matrix d_y, WeightGradientInputs& deferred, Matrix d_x,
                              core::Workspace& workspace) const = 0;
  /// What backward_input takes, for planning.
  virtual void plan_scratch(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection) const = 0;

  /// Adds to the gradients of this sublayer's parameters.
  virtual void backward_weight(Engine& engine, const StepContext& context, const RowSelection* selection,
                               const SavedActivations& saved, const WeightGradientInputs& deferred,
                               ConstMatrix x) const = 0;
};

/// The kind, for messages: "attention".
std::string sublayer_name(SublayerSettings::Kind kind);
/// Appends the sublayer's parameters. Query, key and value weights lie behind each other, as do their biases, so that
/// one product computes all three.
void declare_sublayer(const SublayerSettings& settings, std::vector<core::ParameterSpec>& specs,
                      const TensorRank& place = {});
/// `selects`: it computes the rows that the head reads, else all tokens.
LayerCosts sublayer_costs(const SublayerSettings& settings, const BatchShape& batch, bool selects);
std::unique_ptr<Sublayer> make_sublayer(const SublayerSettings& settings, const core::ParameterStore& parameters,
                                        const TensorGroup& group = {});

}  // namespace bert_hpc::layers
