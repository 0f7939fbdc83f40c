// Modes "evaluate" and "predict": a model from a Hugging Face folder over the test (or validation) data.
#include <algorithm>
#include <optional>

#include "bert_hpc/app/application.hpp"
#include "bert_hpc/app/engine/data_sets.hpp"
#include "bert_hpc/app/engine/evaluator.hpp"
#include "bert_hpc/app/engine/model_from_config.hpp"
#include "bert_hpc/app/engine/model_labels.hpp"
#include "bert_hpc/app/engine/model_loading.hpp"
#include "bert_hpc/app/engine/one_answer.hpp"
#include "bert_hpc/app/engine/planned_data.hpp"
#include "bert_hpc/app/plan/micro_batch_size.hpp"
#include "bert_hpc/app/plan/pipeline_setup.hpp"
#include "bert_hpc/app/report/describe.hpp"
#include "bert_hpc/app/report/results.hpp"
#include "bert_hpc/app/report/stage_table.hpp"
#include "bert_hpc/app/run/collective.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {

void run_evaluation(const RunContext& context) {
  const config::Config& input = context.input;
  comm::Communicator& world = context.world;
  const bool predicts = input.run.mode == "predict", estimates = context.invocation.validate;
  model::ModelConfig stated, config;
  collectively(world, [&] { stated = stated_model(input); });
  DataSets sets;
  open_or_plan_data(sets, context, stated);
  data::ShardReader& reader = sets.test ? *sets.test : *sets.validation;
  collectively(world, [&] { config = complete_model(input, stated, reader.info(), reader.special_ids()); });

  const std::int64_t usual = usual_micro_tokens(context, config, reader);
  const comm::GridPlace place = comm::place(context.grid, std::min(world.rank(), context.ranks() - 1));
  std::optional<comm::ProcessGroups> groups;
  core::Timers timers(context.activity);
  std::vector<std::int64_t> balance;
  std::optional<Assembly> assembly;
  std::optional<Evaluator> evaluator;
  collectively(world, [&] {
    balance = balance_by_cost(input, config, objectives::named(input.task.name).head, context.grid.pipeline,
                              reader.info().mean_length());
    assembly.emplace(input, config, estimates ? Assembly::Purpose::estimate : Assembly::Purpose::evaluation,
                     context.grid, place, balance);
    const std::int64_t longest = reader.info().max_length;
    const data::BatchLoaderOptions batches =
        training_batches(input, config, longest, place.data, context.grid, 0, usual);
    evaluator.emplace(*assembly, reader,
                      data::evaluation_options(batches, evaluation_micro_tokens(input, longest, usual)), !predicts);
    assembly->allocate({}, 0, evaluator->bounds());
    if (estimates) check_pretrained(*assembly, input, false);
  });
  const auto memory_of = [&](const Assembly& part) {
    MemoryPlan memory = model_memory(part, false);
    add_surroundings(sets, part, memory);
    return memory;
  };
  const auto facts_at = [&](const comm::GridPlace& at) {
    if (at == place) return stage_facts(*assembly, memory_of(*assembly));
    Assembly other(input, config, Assembly::Purpose::estimate, context.grid, at, balance);
    other.allocate({}, 0, evaluator->bounds());
    return stage_facts(other, memory_of(other));
  };
  const std::string labels = predicts ? "" : labels_note(stated.label_names, reader.info().label_names);
  if (tasks::named(input.task.name).has_label_names() && !labels.empty()) context.log.info("note: " + labels);
  const std::vector<StageFacts> stages = stage_table(context, facts_at);
  describe_run(context, *assembly, sets, memory_of(*assembly), most_bytes(stages), stage_lines(context.grid, stages));
  if (estimates) {
    note_directory(context, directory_note(context));
    context.log.info("valid: nothing was computed");
    return;
  }
  groups.emplace(comm::make_process_groups(world, context.grid));
  assembly->connect(*groups, timers);
  load_values(*assembly, input);
  leave_if_asked(context);
  const std::unique_ptr<io::RunLock> lock = lock_run_directory(context);
  Results results(context, lock.get(), config.label_names, assembly->label_scale, sets.hdf5);
  alone_ends_all(world.rank(), context.failure, [&] {
    Predictions predictions;
    const bool gathers = assembly->objective.task->predicts_samples;
    const std::optional<io::EvaluationRow> row = evaluator->evaluate_unless(
        0, [&context] { return context.world.any(context.requests.stop()); }, gathers ? &predictions : nullptr);
    if (!row) {
      context.log.info("stopped " + context.requests.asked() + " without results: submit it again to start over");
      results.stop();
      throw Stop{core::ExitCode::stopped};
    }
    const std::string split = sets.test ? "test" : "validation";
    if (!predicts) {
      results.record_evaluation(split, *row);
      context.log.info(evaluation_line(split, *row));
      if (const auto answer = evaluator->one_answer()) {
        context.log.warning(one_answer_in_evaluation(split, *answer, config.label_names));
      }
    }
    if (gathers) results.write_predictions(predictions, reader, split, config.label_names);
    results.record_ranks(context, context.device.name, total(memory_of(*assembly)));
    results.finish({{"samples", static_cast<double>(reader.samples())}, {"seconds", context.seconds()}});
    context.log.info("results in " + input.run.directory + " after " + core::format_duration(context.seconds()));
  });
}

}  // namespace bert_hpc::app
