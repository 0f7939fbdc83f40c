#include "bert_hpc/layers/projected_embeddings.hpp"

#include <algorithm>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/layers/linear.hpp"

namespace bert_hpc::layers {
namespace {

class ProjectedEmbeddings : public Input {
 public:
  ProjectedEmbeddings(const EmbeddingsSettings& settings, const std::string& projection, std::int64_t hidden,
                      const core::ParameterStore& parameters, const TensorGroup& group)
      : columns_(settings.hidden),
        hidden_(hidden),
        storage_(settings.storage),
        group_(group),
        embeddings_(settings, parameters, group),
        projection_(parameters, {.weight = projection + ".weight", .bias = projection + ".bias", .in_encoder = false}) {
  }

  std::vector<LinearWeight> linear_weights() const override { return {projection_.weight(false)}; }

  std::unique_ptr<SavedActivations> make_saved() const override {
    auto saved = std::make_unique<Saved>();
    saved->embeddings = embeddings_.make_saved();
    return saved;
  }

  void allocate_saved(core::Workspace& workspace, std::int64_t tokens,
                      SavedActivations& of_micro_batch) const override {
    auto& saved = static_cast<Saved&>(of_micro_batch);
    embeddings_.allocate_saved(workspace, tokens, *saved.embeddings);
    saved.output = group_.take(workspace, tokens, hidden_, storage_);
    saved.d_embeddings = group_.take(workspace, tokens, columns_, storage_);
  }

  void forward(Engine& engine, const StepContext& context, SavedActivations& of_micro_batch) const override {
    auto& saved = static_cast<Saved&>(of_micro_batch);
    embeddings_.forward(engine, context, *saved.embeddings);
    projection_.forward(engine, saved.embeddings->output, saved.output);
  }

  void backward_weight(Engine& engine, const StepContext& context, const SavedActivations& of_micro_batch,
                       const StreamGradient& gradient) const override {
    const auto& saved = static_cast<const Saved&>(of_micro_batch);
    const std::int64_t tokens = context.batch.tokens.count;
    projection_.backward_input(engine, gradient.y, saved.d_embeddings, ops::Write::replace);
    const ConstMatrix d_y = group_.gather(gradient.y, tokens), x = group_.gather(saved.embeddings->output, tokens);
    projection_.backward_weight(engine, d_y, x);
    embeddings_.backward_weight(engine, context, *saved.embeddings, StreamGradient(saved.d_embeddings));
  }

 private:
  struct Saved : SavedActivations {
    std::unique_ptr<SavedActivations> embeddings;
    Matrix d_embeddings;  ///< (rows, columns): the gradient of their result
  };

  std::int64_t columns_, hidden_;
  DataType storage_;
  TensorGroup group_;
  Embeddings embeddings_;
  Linear projection_;
};

class ProjectedEmbeddingsKind final : public InputKind {
 public:
  ProjectedEmbeddingsKind(EmbeddingsSettings settings, std::string projection, std::int64_t hidden)
      : settings_(std::move(settings)),
        embeddings_(token_embeddings(settings_)),
        projection_(std::move(projection)),
        hidden_(hidden) {
    core::require(!settings_.sum_out, "embeddings of a pre-norm model are not projected");
  }

  std::int64_t hidden() const override { return hidden_; }
  std::int64_t most_columns() const override { return std::max(hidden_, settings_.hidden); }
  std::int64_t looked_up() const override { return embeddings_->looked_up(); }

  void declare(std::vector<core::ParameterSpec>& specs, const TensorRank& tensor_rank) const override {
    embeddings_->declare(specs, tensor_rank);
    specs.push_back({.name = projection_ + ".weight", .shape = {hidden_, settings_.hidden}});
    declare_vector(specs, {.name = projection_ + ".bias", .shape = {hidden_}});
  }

  LayerCosts costs(const BatchShape& batch, DataType storage) const override {
    LayerCosts costs = embeddings_->costs(batch, storage);
    const auto columns = static_cast<double>(settings_.hidden), hidden = static_cast<double>(hidden_);
    const double rows = static_cast<double>(core::bytes_of(storage)) * batch.tokens;
    PassWork work = work_of_products(2 * batch.tokens * columns * hidden, 0, rows * (columns + hidden),
                                     rows * (columns + hidden), columns * hidden, 0);
    work.backward_weight += std::exchange(work.backward_input, {});  // an input has one backward pass
    costs.work += work;
    costs.saved_bytes += 2 * rows * columns;  // beside a result of the encoder's width
    return costs;
  }

  std::unique_ptr<Input> make(const core::ParameterStore& parameters, const TensorGroup& group,
                              DataType storage) const override {
    EmbeddingsSettings settings = settings_;
    settings.storage = storage;
    return std::make_unique<ProjectedEmbeddings>(settings, projection_, hidden_, parameters, group);
  }

 private:
  EmbeddingsSettings settings_;
  std::shared_ptr<const InputKind> embeddings_;
  std::string projection_;
  std::int64_t hidden_;
};

}  // namespace

std::shared_ptr<const InputKind> projected_embeddings(EmbeddingsSettings embeddings, std::string projection,
                                                      std::int64_t hidden) {
  return std::make_shared<ProjectedEmbeddingsKind>(std::move(embeddings), std::move(projection), hidden);
}

}  // namespace bert_hpc::layers
