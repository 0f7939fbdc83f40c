#include "bert_hpc/model/model_plan.hpp"

#include "families/family.hpp"

namespace bert_hpc::model {
namespace {

/// One sentence where a choice is not the one that is built in.
class Choices {
 public:
  explicit Choices(core::ProblemList& problems) : problems_(problems) {}

  template <class Choice>
  void only(const char* what, Choice choice, Choice built_in, const char* name) {
    if (choice != built_in) add(std::string(what) + ": only " + name + " is built in.");
  }
  void add(const std::string& sentence) { problems_.add(sentence); }

 private:
  core::ProblemList& problems_;
};

}  // namespace

void check(const ModelPlan& plan, core::ProblemList& problems) {
  using namespace layers;
  Choices choices(problems);
  choices.only("positions", plan.embeddings.position_kind, Positions::learned, "a learned table");
  for (std::size_t i = 0; i < plan.sublayers.size() && problems.empty(); ++i) {
    const SublayerSettings& sublayer = plan.sublayers[i];
    choices.only("layer norm", sublayer.norm_place, NormPlace::after, "the place after the residual");
    choices.only("layer norm", sublayer.norm_kind, NormKind::layer, "that of mean and variance");
    choices.only("feed-forward", sublayer.gate, Gate::none, "the one without a gate");
    choices.only("activation", sublayer.activation, Activation::gelu, "gelu (exact, with the error function)");
    choices.only("attention", sublayer.mask, AttentionMask::full, "that to all tokens of a sequence");
    if (!sublayer.biases) choices.add("linear layers: only those with a bias are built in.");
  }
  const bool masked = plan.head.kind.ties_word_embeddings;
  if (masked) choices.only("head", plan.head.activation, Activation::gelu, "gelu");
  const bool pools = plan.head.activation == Activation::tanh || plan.head.activation == Activation::relu;
  if (!masked && !pools) choices.add("head: only tanh and relu are built in.");
}

ModelPlan make_plan(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs, core::DataType storage) {
  const Family& family = family_of(config.family);
  ModelPlan plan = family.plan(config, kind, outputs);
  plan.head.word_embeddings = family.names.word_embeddings;
  plan.head.decoder = family.names.decoder;
  plan.embeddings.storage = plan.head.storage = storage;
  for (layers::SublayerSettings& sublayer : plan.sublayers) sublayer.storage = storage;
  core::ProblemList problems;
  check(plan, problems);
  problems.throw_if_any(core::ExitCode::input, "the model cannot be computed:");
  return plan;
}

std::string word_embeddings_name(const ModelConfig& config) {
  return family_of(config.family).names.word_embeddings;
}

std::string decoder_name(const ModelConfig& config) {
  return family_of(config.family).names.decoder;
}

}  // namespace bert_hpc::model
