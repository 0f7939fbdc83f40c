#include "app/engine/teacher.hpp"

#include <algorithm>
#include <sstream>

#include "app/engine/data_sets.hpp"
#include "app/engine/hidden_states.hpp"
#include "app/engine/model_from_config.hpp"
#include "app/engine/model_loading.hpp"
#include "app/engine/precision.hpp"
#include "app/engine/run_memory.hpp"
#include "app/run/collective.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/model/hf_weights.hpp"
#include "bert_hpc/ops/distillation.hpp"

namespace bert_hpc::app {

using core::Error;
using core::ExitCode;

namespace {

constexpr const char* divergence_word = "kl";
constexpr const char* squares_word = "mse_logits";
constexpr const char* margins_word = "margin_mse";

/// Losses of the task, those of margins only if queries are drawn whole, and those between hidden states.
std::vector<std::string> words_of(const config::Config& input) {
  std::vector<std::string> words = objectives::of(input).distillation.words;
  if (words.empty()) return words;
  if (!input.task.is(tasks::loss_key, tasks::listwise_loss)) std::erase(words, margins_word);
  words.insert(words.end(), {config::hidden_squares_word, config::hidden_cosine_word, config::attention_squares_word});
  return words;
}

std::vector<std::int64_t> teacher_edges(const std::vector<train::StatePair>& pairs) {
  std::vector<std::int64_t> edges;
  for (const train::StatePair& pair : pairs) edges.push_back(pair.teacher);
  return edges;
}

/// Indices of the pairs whose teacher's edges a rank with these parts computes.
std::vector<std::size_t> own_pairs(std::span<const train::StatePair> pairs, std::span<const model::Stage> stages) {
  std::vector<std::size_t> own;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    for (const model::Stage& stage : stages) {
      const model::ModelRange& range = stage.range();
      const std::int64_t edge = pairs[i].teacher;
      const bool is_here = edge == 0 ? range.embeddings : range.first < edge && edge <= range.last;
      if (is_here) own.push_back(i);
    }
  }
  return own;
}

/// Throws Error(input) if the teacher cannot compute what the student computes.
void require_fit(const model::ModelConfig& teacher, const model::ModelConfig& student, const std::string& folder,
                 const objectives::Objective& objective, const data::ShardReader& reader) {
  core::ProblemList problems;
  const std::string other = other_task(objective, teacher);
  if (!other.empty()) {
    problems.add("it was trained for another task: its config.json has " + other +
                 ": use a teacher that was trained for this task, or set [task] name to the teacher's.");
  }
  const auto outputs = [&](const model::ModelConfig& config) {
    return objective.head.outputs(config.vocab_size, config.hidden_size, config.num_labels());
  };
  if (teacher.vocab_size < reader.info().vocabulary_size) {
    problems.add("its vocabulary has " + core::with_commas(teacher.vocab_size) + " pieces and that of the shards " +
                 core::with_commas(reader.info().vocabulary_size) +
                 ": use a teacher with the tokenizer of the shards.");
  } else if (!objective.task->has_labels() && outputs(teacher) != outputs(student)) {
    problems.add("it has " + core::with_commas(outputs(teacher)) + " outputs and the student " +
                 core::with_commas(outputs(student)) +
                 ": set [model] vocab_size = " + std::to_string(teacher.vocab_size) + ".");
  }
  if (objective.task->has_values() && reader.info().label_names.size() > 1) {
    problems.add("the shards have " + core::counted(std::ssize(reader.info().label_names), "label column") +
                 ", and a regression learns from a teacher with one: prepare them with one column in [source] label.");
  }
  if (teacher.max_position_embeddings < reader.info().max_length) {
    problems.add("it takes at most " + core::counted(teacher.max_position_embeddings, "token") +
                 " and the shards have sequences of " + std::to_string(reader.info().max_length) +
                 ": prepare the text with [tokenizer] max_tokens = " + std::to_string(teacher.max_position_embeddings) +
                 ".");
  }
  problems.throw_if_any(ExitCode::input, "[distill] teacher = \"" + folder + "\" does not fit the student:");
}

/// Throws Error(input) if the student's blocks cannot begin as those of the teacher that [distill] initialize names.
void require_blocks(const std::vector<double>& blocks, const model::ModelConfig& teacher,
                    const model::ModelConfig& student) {
  core::ProblemList problems;
  if (std::ssize(blocks) != student.num_hidden_layers) {
    problems.add("it names " + core::counted(std::ssize(blocks), "block") + " and the student has " +
                 std::to_string(student.num_hidden_layers) + ".");
  }
  const auto last = static_cast<double>(teacher.num_hidden_layers - 1);
  if (std::any_of(blocks.begin(), blocks.end(), [&](double block) { return block > last; })) {
    problems.add("the teacher's blocks are 0 to " + core::format_number(last) + ".");
  }
  const auto compare = [&](const char* key, const auto& there, const auto& here) {
    if (there == here) return;
    std::ostringstream text;
    text << "[model] " << key << " is " << here << " and the teacher's is " << there << '.';
    problems.add(text.str());
  };
  compare("family", teacher.family, student.family);
  compare("hidden_size", teacher.hidden_size, student.hidden_size);
  compare("num_attention_heads", teacher.num_attention_heads, student.num_attention_heads);
  compare("intermediate_size", teacher.intermediate_size, student.intermediate_size);
  compare("vocab_size", teacher.vocab_size, student.vocab_size);
  compare("max_position_embeddings", teacher.max_position_embeddings, student.max_position_embeddings);
  compare("type_vocab_size", teacher.type_vocab_size, student.type_vocab_size);
  problems.throw_if_any(ExitCode::input, "[distill] initialize does not fit:");
}

void require_blocks_of_attention(const std::vector<std::string>& families) {
  for (const std::string& family : families) {
    if (model::has_attention(family)) continue;
    throw Error(ExitCode::input,
                "[distill] losses: \"hidden_mse\", \"hidden_cosine\" and \"attention_mse\" compare blocks of "
                "attention, which \"" +
                    family + "\" does not have: remove them.");
  }
}

/// Throws Error(input) if losses between blocks have nothing to train.
void require_trained_blocks(const config::Config& input, std::int64_t blocks) {
  const std::string begin =
      "[distill] losses: \"hidden_mse\", \"hidden_cosine\" and \"attention_mse\" have nothing to "
      "train with [model] ";
  if (input.model.trainable == "head") {
    throw Error(ExitCode::input, begin + "trainable = \"head\": remove them, or set trainable = \"all\".");
  }
  if (input.model.freeze_layers >= blocks) {
    throw Error(ExitCode::input, begin + "freeze_layers = " + std::to_string(input.model.freeze_layers) +
                                     ", all blocks of the student: remove them, or set fewer.");
  }
}

}  // namespace

std::vector<std::string> soft_losses(const config::Config& input) {
  const std::vector<std::string> words = words_of(input);
  if (words.empty()) {
    throw Error(ExitCode::input, "[distill] is not for the task \"" + input.task.name + "\": remove the table.");
  }
  if (input.distill.losses.empty()) return {words.front()};
  for (const std::string& word : input.distill.losses) {
    if (std::find(words.begin(), words.end(), word) != words.end()) continue;
    const bool needs_lists = word == margins_word && objectives::of(input).task->ranks_candidates();
    throw Error(ExitCode::input,
                "[distill] losses: \"" + core::printable(word, 60) + "\" " +
                    (needs_lists ? std::string("needs [task] loss = \"listwise\", which draws queries whole.")
                                 : "is none of the task \"" + input.task.name + "\", which has " +
                                       core::listed(words, "and") + "."));
  }
  return input.distill.losses;
}

train::DistillationSettings distillation_settings(const config::Config& input, std::int64_t rows) {
  train::DistillationSettings settings{.loss = objectives::of(input).distillation.loss,
                                       .terms = {.temperature = static_cast<float>(input.distill.temperature)},
                                       .share = static_cast<float>(input.distill.alpha),
                                       .rows = rows};
  settings.terms.divergence = input.distills_by(divergence_word) ? 1 : 0;
  settings.terms.squares = input.distills_by(squares_word) ? 1 : 0;
  settings.terms.margins = input.distills_by(margins_word) ? 1 : 0;
  return settings;
}

ClassifierUse teacher_use(const config::Config& input, const LabelNames& teacher, const LabelNames& student) {
  const config::Distill& d = input.distill;
  const std::string begin = d.teacher_scores ? "[distill] teacher_scores = \"" + *d.teacher_scores + "\" has "
                                             : "[distill] teacher = \"" + d.teacher.value_or("") + "\" has ";
  if (teacher.size() != student.size()) {
    throw Error(ExitCode::input, begin + core::counted(std::ssize(teacher), "label") + " and the student " +
                                     std::to_string(student.size()) +
                                     ": train the teacher on shards with the same labels.");
  }
  config::Config of_teacher = input;
  of_teacher.model.head = "auto";
  ClassifierUse use = classifier_use(of_teacher, teacher, student);
  if (!use.is_new) return use;
  constexpr std::size_t longest_shown = 120;
  throw Error(ExitCode::input, begin + "other labels (" + core::printable(core::listed(teacher, "and"), longest_shown) +
                                   ") than the student (" +
                                   core::printable(core::listed(student, "and"), longest_shown) +
                                   "). Train the teacher on shards with the same labels.");
}

TeacherPlan plan_teacher(const config::Config& input, const model::ModelConfig& student,
                         const data::ShardReader& reader) {
  const std::string& folder = *input.distill.teacher;
  const objectives::Objective& objective = objectives::of(input);
  const model::ModelConfig teacher = model::read_hf_config(folder);
  require_fit(teacher, student, folder, objective, reader);
  if (compares_states(input) || compares_attention(input)) {
    require_blocks_of_attention({teacher.family, student.family});
    require_trained_blocks(input, student.num_hidden_layers);
  }
  if (!input.distill.initialize.empty()) require_blocks(input.distill.initialize, teacher, student);
  if (!reader.planned()) require_tokenizer(reader, folder);
  ClassifierUse classifier;
  if (objective.task->has_labels() && objective.head.fixed_outputs == 0) {
    classifier = teacher_use(input, teacher.label_names, student.label_names);
  }
  config::Config of_teacher = input;
  of_teacher.precision.compute = input.distill.compute.value_or(input.precision.compute);
  ModelRequest request = applied_model(teacher, objective, precision_of(of_teacher));
  request.reproducible = input.run.reproducible;
  request.products = input.run.kernels;
  request.attention = input.model.attention;
  request.plan.head.reads_all_logits = true;
  TeacherPlan plan{.folder = folder,
                   .request = std::move(request),
                   .classifier = std::move(classifier),
                   .share = static_cast<float>(input.distill.alpha),
                   .storage = storage_type(input)};
  const model::ModelPlan of_student = plan_of(input, student, objective.head, true);
  if (!input.distill.initialize.empty() && of_student.shares_blocks) {
    throw Error(ExitCode::input,
                "[distill] initialize takes single blocks, but the student's have the same parameters: remove it, or "
                "set [model] pretrained.");
  }
  plan.pairs = state_pairs(input, of_student, plan.request.plan);
  if (projects_states(input, of_student, plan.request.plan)) plan.projected = student.hidden_size;
  plan.attention = attention_pairs(input, student, teacher);
  plan.edges = edges_behind(plan.attention, of_student, plan.request.plan);
  const bool reads_last_attention = std::any_of(plan.attention.begin(), plan.attention.end(), [&](const auto& pair) {
    return pair.teacher == teacher.num_hidden_layers - 1;
  });
  if (reads_last_attention || reads_last_state(teacher_edges(plan.pairs), plan.request.plan)) {
    compute_all_tokens(plan.request.plan);
  }
  plan.edges.insert(plan.edges.end(), plan.pairs.begin(), plan.pairs.end());
  return plan;
}

void take_blocks(ModelInstance& student, const TeacherPlan& plan, const config::Config& input) {
  const std::vector<std::int64_t> blocks(input.distill.initialize.begin(), input.distill.initialize.end());
  collectively(student.groups().world, [&] {
    if (student.coordinates.data != 0) return;
    std::vector<std::string> names;
    for (const core::ParameterSlice& slice : student.parameters.slices()) names.push_back(slice.name);
    const model::LoadOptions options{
        .may_be_missing = model::head_prefixes(student.objective.head, student.config.family),
        .replace_other_shapes = true,
        .family = student.config.family,
        .weights = model::with_blocks(student.plan.weights, names, blocks)};
    const std::vector<std::string> fresh =
        model::load_hf_weights(plan.folder, student.parameters, options).newly_initialised;
    reorder_rows(student.plan.head.classifier, plan.classifier.rows, student.parameters);
    objectives::head_into_training_unit(student.output_rules.scales, student.plan.head.classifier, fresh,
                                        student.parameters);
  });
  student.groups().data->broadcast(student.parameters.change_values(), 0);
}

std::string loss_text(const config::Config& input) {
  const config::Distill& distill = input.distill;
  std::string text = "loss = " + core::format_number(1 - distill.alpha) + " · the task's + " +
                     core::format_number(distill.alpha) + " · ";
  std::string terms;
  for (const std::string& word : distill.losses) terms += (terms.empty() ? "" : " + ") + word;
  text += distill.losses.size() > 1 ? '(' + terms + ')' : terms;
  if (input.distills_by(divergence_word)) text += " at temperature " + core::format_number(distill.temperature);
  return text;
}

std::vector<std::pair<std::string, std::string>> teacher_lines(const config::Config& input, const TeacherPlan& plan,
                                                               std::int64_t student) {
  const model::ModelConfig& config = plan.request.config;
  const std::string text =
      plan.folder + ": " + config.family + ", " + core::counted(config.num_hidden_layers, "block") + " of " +
      std::to_string(config.hidden_size) + ", in " + plan.request.precision.name() + "; " + loss_text(input);
  std::vector<std::pair<std::string, std::string>> lines = {{"teacher", text}};
  std::string states = states_text(input, student, config.num_hidden_layers);
  if (plan.projected > 0) {
    states += "; " + std::to_string(plan.projected) + " columns are projected to " + std::to_string(config.hidden_size);
  }
  if (!states.empty()) lines.emplace_back("", states);
  return lines;
}

Teacher::Teacher(const TeacherPlan& plan, const comm::GridShape& grid, const comm::GridCoordinates& coordinates,
                 const layers::BatchBounds& bounds, int micro_batches, bool allocates)
    : plan_(plan),
      model_(plan.request, grid, coordinates, plan.balance, allocates),
      rows_(bounds.selected),
      micro_batches_(micro_batches) {
  model_.allocate({}, micro_batches, bounds);
  if (!plan.pairs.empty()) {
    states_.emplace(train::HiddenLossSettings{.pairs = plan.pairs,
                                              .own = own_pairs(plan.pairs, model_.stages),
                                              .share = plan.share,
                                              .micro_batches = micro_batches,
                                              .rows = bounds.tokens,
                                              .columns = model_.plan.width(model_.plan.sublayer_count()),
                                              .projected = plan.projected,
                                              .storage = plan.storage},
                    model_.tensor_group(), allocates);
  }
  if (!plan.attention.empty()) {
    const std::span<const train::StatePair> edges = std::span(plan.edges).first(plan.attention.size());
    attention_.emplace(train::AttentionLossSettings{.pairs = plan.attention,
                                                    .own = own_pairs(edges, model_.stages),
                                                    .share = plan.share,
                                                    .micro_batches = micro_batches,
                                                    .rows = bounds.tokens,
                                                    .heads = model_.config.num_attention_heads / grid.tensor,
                                                    .columns = model_.config.hidden_size / grid.tensor,
                                                    .storage = plan.storage},
                       allocates);
  }
  if (allocates && has_head()) outputs_ = core::Buffer<float>(micro_batches * rows_ * model_.own_outputs());
}

bool Teacher::has_head() const {
  return model_.stages.back().range().head;
}

void Teacher::connect(const comm::ProcessGroups& groups, core::Timers& timers) {
  model_.connect(groups, timers);
}

void Teacher::load(const objectives::OutputRules& rules) {
  model_.output_rules = rules;
  load_folder(model_, plan_.folder);
  collectively(model_.groups().world,
               [this] { reorder_rows(model_.plan.head.classifier, plan_.classifier.rows, model_.parameters); });
}

void Teacher::compute(std::span<const layers::StepContext> passes) {
  core::require(std::ssize(passes) <= micro_batches_, "teacher: more micro-batches than planned");
  passes_.clear();
  layers::StreamObserver* const states = states_ ? &states_->teacher() : nullptr;
  layers::AttentionObserver* const attention = attention_ ? &attention_->teacher() : nullptr;
  for (const layers::StepContext& pass : passes) {
    passes_.push_back(
        {.batch = pass.batch, .number = pass.number, .observer = states, .attention_observer = attention});
  }
  model_.pipeline().evaluate(model_.engine(), passes_, false, *this);
}

void Teacher::result(int micro_batch, model::Stage& stage, int slot) {
  const core::Matrix logits = stage.logits(slot);
  core::require(logits.rows <= rows_, "teacher: more rows than planned");
  ops::outputs_as_floats(logits, outputs(micro_batch));
}

std::int64_t Teacher::pairs() const {
  return std::ssize(plan_.edges);
}

void Teacher::begin(const train::ObservedStep& step) {
  train::ObservedStep next = step;
  if (states_) {
    states_->begin(next);
    next.losses += states_->pairs() * step.micro_batches;
  }
  if (attention_) attention_->begin(next);
}

core::Tensor<float> Teacher::outputs(int micro_batch) {
  const std::int64_t columns = model_.own_outputs();
  const std::int64_t rows = passes_[static_cast<std::size_t>(micro_batch)].batch.targets.rows.count;
  return {outputs_.data() + micro_batch * rows_ * columns, rows, columns};
}

MemoryPlan Teacher::memory() const {
  MemoryPlan memory;
  for (const auto& [purpose, bytes] : model_memory(model_, false)) memory.emplace_back("teacher: " + purpose, bytes);
  if (has_head()) {
    memory.emplace_back("teacher: outputs of a step",
                        micro_batches_ * rows_ * model_.own_outputs() * static_cast<std::int64_t>(sizeof(float)));
  }
  if (states_) memory.emplace_back("teacher: hidden states of a step", states_->bytes());
  if (attention_) memory.emplace_back("teacher: queries and keys of a step", attention_->bytes());
  return memory;
}

}  // namespace bert_hpc::app
