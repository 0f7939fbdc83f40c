#include "app/evaluation_run.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "app/engine/model_labels.hpp"
#include "app/engine/model_loading.hpp"
#include "app/report/describe.hpp"
#include "app/report/results.hpp"
#include "app/run/collective.hpp"
#include "app/run_start.hpp"
#include "app/session.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/objectives/one_answer.hpp"

namespace bert_hpc::app {

namespace {

/// Notes on the use of the pretrained model, and on the meaning of label numbers without names.
void report_labels(const LoadNotes& notes, const Session& session, const SessionData& data, const RunBasics& run) {
  report_load(notes, run);
  if (run.input.run.mode == "predict" ||
      !session.model->objective.task->names_outputs(session.model->config.label_names.size()))
    return;
  const std::string numbers = numbers_note(session.model->config.label_names, data.primary().info().label_names);
  if (!numbers.empty()) run.log.info("note: " + numbers);
}

/// metrics.h5, and the files of predictions, whose names depend on the task.
std::vector<std::string> result_files(const std::string& directory) {
  static const std::set<std::string> others = {"nbest_predictions.json", "null_odds.json", "run.trec"};
  std::vector<std::string> files;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("predictions.") || others.contains(name)) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  files.insert(files.begin(), directory + "/metrics.h5");
  return files;
}

/// Collective. Throws Stop if the run was asked to stop.
void evaluate(Session& session, data::ShardReader& reader, Results& results, const RunContext& context) {
  const config::Config& input = context.input;
  const std::vector<std::string>& labels = session.model->config.label_names;
  const std::string split = session.sets.test ? "test" : "validation";
  Evaluator& evaluator = session.test ? *session.test : *session.validation;
  const objectives::PredictionsFacts predictions = results.predictions_of(split, *session.model);
  const bool writes = session.model->objective.task->predicts_samples;
  const std::optional<io::EvaluationRow> row = evaluator.evaluate_unless(
      0, [&context] { return context.world.any(context.requests.stop()); }, writes ? &predictions : nullptr);
  if (!row) {
    context.log.info("stopped " + agreed_stop_reason(context) + " without results: the same command starts over");
    results.stop();
    throw Stop{core::ExitCode::stopped};
  }
  if (input.run.mode != "predict") {
    results.record_evaluation(split, *row);
    context.log.info(evaluation_line(split, *row, *session.model));
    if (const auto answer = evaluator.one_answer()) {
      context.log.warning(objectives::one_answer_in_evaluation(split, *answer, labels, input.task.name));
    }
  }
  results.record_ranks(context, context.device.name, session.memory());
  results.finish({{"samples", static_cast<double>(reader.samples())}, {"seconds", context.seconds()}});
  if (context.world.rank() == 0) {
    context.log.info("results in " + core::listed(result_files(input.run.directory), "and", false) + " after " +
                     core::format_duration(context.seconds()));
  }
}

}  // namespace

void run_evaluation(const RunContext& context) {
  SessionData data(context);
  Session session(context, data, false);
  session.describe({});
  if (session.estimates()) {
    report_labels(session.load_notes, session, data, context);
    note_directory(context.log, directory_note(context));
    context.log.info(valid_input);
    return;
  }
  session.connect();
  report_labels(load_values(*session.model, context.input), session, data, context);
  leave_if_asked(context);
  const std::unique_ptr<io::RunLock> lock = lock_run_directory(context);
  Results results(context, lock.get(), facts_of(*session.model), session.sets.hdf5);
  start_reading(session.sets);
  alone_ends_all(context.world.rank(), context.failure, [&] { evaluate(session, data.primary(), results, context); });
}

}  // namespace bert_hpc::app
