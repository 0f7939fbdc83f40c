#include "bert_hpc/layers/feature_rows.hpp"

#include <utility>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"

namespace bert_hpc::layers {
namespace {

class FeatureRows : public Input {
 public:
  FeatureRows(std::int64_t columns, std::shared_ptr<const FeatureTable> table, DataType storage)
      : columns_(columns), table_(std::move(table)), storage_(storage) {
    core::require(table_ == nullptr || table_->rows.columns == columns_,
                  "embeddings of another width than the model's");
  }

  std::unique_ptr<SavedActivations> make_saved() const override { return std::make_unique<SavedActivations>(); }
  void allocate_saved(core::Workspace& workspace, std::int64_t tokens, SavedActivations& saved) const override {
    saved.output = workspace.take(tokens, columns_, storage_);
  }
  void forward(Engine&, const StepContext& context, SavedActivations& saved) const override {
    if (table_ == nullptr) {
      return core::fill_on_device(saved.output.data, 0,
                                  static_cast<std::size_t>(saved.output.size() * core::bytes_of(storage_)));
    }
    ops::stored_rows_forward(context.batch.input_ids, table_->rows, saved.output);
  }
  void backward_weight(Engine&, const StepContext&, const SavedActivations&, const StreamGradient&) const override {}

 private:
  std::int64_t columns_;
  std::shared_ptr<const FeatureTable> table_;
  DataType storage_;
};

class FeatureRowsKind final : public InputKind {
 public:
  FeatureRowsKind(std::int64_t columns, std::shared_ptr<const FeatureTable> table)
      : columns_(columns), table_(std::move(table)) {}

  std::int64_t hidden() const override { return columns_; }
  bool can_be_shared() const override { return false; }
  void declare(std::vector<core::ParameterSpec>&, const TensorRank&) const override {}
  LayerCosts costs(const BatchShape& batch, DataType storage) const override {
    const double element = static_cast<double>(core::bytes_of(storage)) + sizeof(float);
    const double bytes = element * static_cast<double>(columns_) * batch.tokens;
    LayerCosts costs;
    costs.work.forward = {.bytes = bytes, .moved = bytes, .passes = 1};
    return costs;
  }
  std::unique_ptr<Input> make(const core::ParameterStore&, const TensorGroup&, DataType storage) const override {
    return std::make_unique<FeatureRows>(columns_, table_, storage);
  }

 private:
  std::int64_t columns_;
  std::shared_ptr<const FeatureTable> table_;
};

}  // namespace

std::shared_ptr<const InputKind> feature_rows(std::int64_t columns, std::shared_ptr<const FeatureTable> table) {
  return std::make_shared<FeatureRowsKind>(columns, std::move(table));
}

}  // namespace bert_hpc::layers
