// A teacher beside a student: two models of one program, on the same ranks and communicators. The teacher has neither
// gradients nor dropout, and the student's numbers have the same bits as without it.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "app/engine/model_instance.hpp"
#include "app/engine/model_loading.hpp"
#include "bert_hpc/model/encoder_settings.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/model/hf_weights.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/ops/dropout.hpp"
#include "support/host_batch.hpp"
#include "support/temporary_directory.hpp"
#include "support/world.hpp"

using namespace bert_hpc;
using test::world;

namespace {

constexpr std::int64_t vocabulary = 23, longest = 9;
constexpr int micro_batches = 3;
constexpr layers::BatchBounds bounds{.tokens = 4 * longest, .sequences = 4, .max_length = longest, .selected = 4};

model::ModelConfig small_config(std::int64_t hidden, std::int64_t layers) {
  model::ModelConfig config;
  config.vocab_size = vocabulary;
  config.hidden_size = hidden;
  config.num_hidden_layers = layers;
  config.num_attention_heads = 4;
  config.intermediate_size = 2 * hidden;
  config.max_position_embeddings = longest;
  model::encoder_settings(config).hidden_dropout_prob = model::encoder_settings(config).attention_probs_dropout_prob =
      0.2;
  config.label_names = {"no", "maybe", "yes"};
  return config;
}

const objectives::Objective& classification() {
  return objectives::named("classification");
}

/// Writes a Hugging Face folder of a model with random values.
void write_folder(const std::string& folder, const model::ModelConfig& config, std::uint64_t seed) {
  const model::ModelPlan plan = model::make_plan(config, classification().head, config.num_labels());
  core::ParameterStore store(model::model_parameters(plan, model::whole(plan)), core::ParameterStore::Arenas::values);
  model::initialize_parameters(store, config, seed);
  model::save_hf_folder(folder, config, classification().head, store);
}

/// The folders of a student and of two teachers, on every rank.
class Folders {
 public:
  Folders() {
    if (world().rank() == 0) {
      made_.emplace();
      write_folder(*made_ / "student", small_config(16, 2), 5);
      write_folder(*made_ / "teacher", small_config(24, 4), 6);
    }
    path_ = world().broadcast(made_ ? made_->path() : std::string(), 0);
  }
  ~Folders() { world().barrier(); }
  Folders(const Folders&) = delete;
  Folders& operator=(const Folders&) = delete;
  std::string operator/(const std::string& name) const { return path_ + '/' + name; }

 private:
  std::optional<test::TemporaryDirectory> made_;
  std::string path_;
};

/// Micro-batches of one to four sequences, others for each replica.
std::vector<std::unique_ptr<test::HostBatch>> make_batches(int replica) {
  std::vector<std::unique_ptr<test::HostBatch>> batches;
  for (int m = 0; m < micro_batches; ++m) {
    std::vector<std::int32_t> lengths, ids, types, classes;
    for (int b = 0; b <= (m + replica) % 4; ++b) {
      lengths.push_back(1 + (3 * b + 2 * m + replica) % static_cast<int>(longest));
      classes.push_back((b + m) % 3);
      for (std::int32_t t = 0; t < lengths.back(); ++t) {
        ids.push_back((7 * t + 3 * b + m + replica) % static_cast<int>(vocabulary));
        types.push_back(t % 2);
      }
    }
    batches.push_back(std::make_unique<test::HostBatch>(ids, types, lengths));
    batches.back()->set_classes(classes);
  }
  return batches;
}

/// One rank's part of a model of a folder with what runs it.
class Model : train::PipelineEvents {
 public:
  Model(const std::string& folder, bool trains, const comm::ProcessGroups& groups)
      : batches_(make_batches(groups.coordinates.data)) {
    const model::ModelConfig config = model::read_hf_config(folder);
    app::ModelRequest request = app::applied_model(config, classification(), {});
    if (trains) request.training.emplace();
    std::vector<std::int64_t> balance(static_cast<std::size_t>(groups.shape.pipeline),
                                      request.plan.sublayer_count() / groups.shape.pipeline);
    instance.emplace(request, groups.shape, groups.coordinates, balance);
    instance->allocate(trains ? bounds : layers::BatchBounds{}, micro_batches, bounds);
    instance->connect(groups, timers_);
    app::load_folder(*instance, folder);
  }

  /// The logits of an evaluation.
  std::vector<float> evaluate() {
    run(false);
    return std::move(logits_);
  }
  /// The row losses of a training step, then the gradients of all steps.
  std::vector<float> train() {
    run(true);
    std::vector<float> numbers = std::move(losses_);
    for (const float x : test::copy_of(instance->parameters.gradients())) numbers.push_back(x);
    return numbers;
  }

  std::optional<app::ModelInstance> instance;

 private:
  void run(bool training) {
    logits_.clear();
    losses_.clear();
    core::Dropout key;
    ops::set_dropout_key(key, 3, 17);
    passes_.clear();
    for (const auto& batch : batches_) passes_.push_back({batch->view(), training, key.key0, key.key1});
    if (training) {
      instance->pipeline().train(instance->training_engine(), passes_, {.scale = 0.5f}, *this);
    } else {
      instance->pipeline().evaluate(instance->engine(), passes_, true, *this);
    }
  }
  void result(int m, model::Stage& stage, int slot) override {
    const layers::StepContext& pass = passes_[static_cast<std::size_t>(m)];
    for (const float x : test::floats_of(stage.logits(slot))) logits_.push_back(x);
    for (const float x : test::copy_of(stage.row_losses(slot), pass.batch.sequences)) losses_.push_back(x);
  }

  std::vector<std::unique_ptr<test::HostBatch>> batches_;
  core::Timers timers_;
  std::vector<layers::StepContext> passes_;
  std::vector<float> logits_, losses_;
};

/// Grids of all ranks.
std::vector<comm::GridShape> grids() {
  if (world().size() == 1) return {{1, 1, 1}};
  if (world().size() == 2) return {{2, 1, 1}, {1, 2, 1}, {1, 1, 2}};
  return {{2, 2, 1}, {2, 1, 2}, {1, 2, 2}, {1, 4, 1}};
}

bool everywhere(bool holds) {
  return !world().any(!holds);
}

}  // namespace

TEST_CASE("a teacher beside a student changes no bit of the student's numbers") {
  const Folders folders;
  const std::string teacher_folder = folders / GENERATE("teacher", "student");
  for (const comm::GridShape& grid : grids()) {
    INFO(grid.data << " × " << grid.pipeline << " × " << grid.tensor << ", " << teacher_folder);
    std::vector<float> logits, first_step, second_step, taught;
    {
      const comm::ProcessGroups groups = comm::make_process_groups(world(), grid);
      Model student(folders / "student", true, groups);
      logits = student.evaluate();
      first_step = student.train();
      second_step = student.train();
    }
    {
      const comm::ProcessGroups groups = comm::make_process_groups(world(), grid);
      taught = Model(teacher_folder, false, groups).evaluate();
    }
    const comm::ProcessGroups groups = comm::make_process_groups(world(), grid);
    Model student(folders / "student", true, groups);
    Model teacher(teacher_folder, false, groups);
    bool same = student.evaluate() == logits && teacher.evaluate() == taught;
    same &= student.train() == first_step && teacher.evaluate() == taught;
    same &= student.train() == second_step && teacher.evaluate() == taught;
    CHECK(everywhere(same));
    if (teacher_folder == folders / "student") CHECK(everywhere(taught == logits));
  }
}

TEST_CASE("a teacher has values alone") {
  const Folders folders;
  const comm::ProcessGroups groups = comm::make_process_groups(world(), grids().back());
  Model student(folders / "student", true, groups), teacher(folders / "student", false, groups);
  CHECK(everywhere(!teacher.instance->trains && teacher.instance->parameters.gradients().empty()));
  CHECK(everywhere(!student.instance->parameters.gradients().empty()));
  CHECK(everywhere(teacher.instance->workspace.bytes() < student.instance->workspace.bytes()));
  std::int64_t dropout_bytes = 0;
  for (const model::Stage& stage : teacher.instance->stages) dropout_bytes += stage.dropout_bytes();
  CHECK(everywhere(dropout_bytes == 0));
}
