#include "bert_hpc/layers/token_table.hpp"

#include <utility>

#include "bert_hpc/core/cache_line.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/embedding.hpp"
#include "bert_hpc/ops/flat.hpp"

namespace bert_hpc::layers {
namespace {

/// Rows are whole cache lines, of which a batch touches few.
bool is_row_sparse(const TokenTableSettings& settings) {
  return settings.columns % core::floats_of_cache_line == 0;
}

class TokenTable : public Input {
 public:
  TokenTable(const TokenTableSettings& settings, const core::ParameterStore& parameters, const TensorGroup& group,
             DataType storage)
      : settings_(settings), parameters_(parameters), storage_(storage), table_(parameters.find(settings.table)) {
    core::require(!group.shared(), "a table of embeddings lies on one rank");
  }

  std::unique_ptr<SavedActivations> make_saved() const override { return std::make_unique<SavedActivations>(); }
  void allocate_saved(core::Workspace& workspace, std::int64_t tokens, SavedActivations& saved) const override {
    saved.output = workspace.take(tokens, settings_.columns, storage_);
  }
  void forward(Engine&, const StepContext& context, SavedActivations& saved) const override {
    const core::SortedIds& ids = context.batch.sorted_ids;
    const Tensor<const float> table = parameters_.value_of_ids(table_, ids.ids, ids.unique);
    ops::word_embedding_forward(context.batch, table, 0, saved.output);
  }
  void backward_weight(Engine&, const StepContext& context, const SavedActivations&,
                       const StreamGradient& d_y) const override {
    if (!parameters_.is_trainable(table_)) return;
    ops::embedding_backward(context.batch, d_y.y, parameters_.gradient(table_), {}, {});
    if (!is_row_sparse(settings_)) return;
    const core::SortedIds& ids = context.batch.sorted_ids;
    ops::mark_rows({parameters_.marks_of(table_)}, settings_.columns, ids.ids, ids.unique);
  }

 private:
  TokenTableSettings settings_;
  const core::ParameterStore& parameters_;
  DataType storage_;
  int table_;
};

class TokenTableKind final : public InputKind {
 public:
  explicit TokenTableKind(TokenTableSettings settings) : settings_(std::move(settings)) {}

  std::int64_t hidden() const override { return settings_.columns; }
  std::int64_t looked_up() const override { return settings_.vocabulary; }
  bool can_be_shared() const override { return false; }
  void declare(std::vector<core::ParameterSpec>& specs, const TensorRank&) const override {
    specs.push_back({.name = settings_.table,
                     .shape = {settings_.vocabulary, settings_.columns},
                     .row_sparse = is_row_sparse(settings_),
                     .lookup_only = true,
                     .zero_row = settings_.padding_row});
  }
  LayerCosts costs(const BatchShape& batch, DataType storage) const override;
  std::unique_ptr<Input> make(const core::ParameterStore& parameters, const TensorGroup& group,
                              DataType storage) const override {
    return std::make_unique<TokenTable>(settings_, parameters, group, storage);
  }

 private:
  TokenTableSettings settings_;
};

LayerCosts TokenTableKind::costs(const BatchShape& batch, DataType storage) const {
  const double rows = static_cast<double>(core::bytes_of(storage) * settings_.columns) * batch.tokens;
  LayerCosts costs;
  costs.work.forward = {.bytes = 2 * rows, .moved = 2 * rows, .passes = 1};
  costs.work.backward_weight = {.bytes = 3 * rows, .moved = 3 * rows, .passes = 1};
  return costs;
}

}  // namespace

std::shared_ptr<const InputKind> token_table(TokenTableSettings settings) {
  return std::make_shared<TokenTableKind>(std::move(settings));
}

}  // namespace bert_hpc::layers
