#include "app/run_start.hpp"

#include <filesystem>

#include "app/checkpoint/checkpoint_contents.hpp"
#include "app/checkpoint/resume.hpp"
#include "app/run/checkpoint_owner.hpp"
#include "app/run/collective.hpp"

namespace bert_hpc::app {
namespace {

/// Whether [run] resume names one of the directory's own checkpoints.
bool names_own_checkpoint(const config::Config& input) {
  std::error_code problem;
  const std::filesystem::path own = checkpoint_folder(input).path();
  return std::filesystem::equivalent(named_checkpoint(input.run.resume).parent_path(), own, problem);
}

/// Whether to continue an unfinished run in the run's directory. Evaluations begin again, as they have nothing to lose.
bool continues_there(const RunContext& context) {
  if (!context.input.trains()) return true;
  if (start_of(context.input).resume == "never") return false;
  return beginning_of(context).own_first || names_own_checkpoint(context.input);
}

/// What was asked for, and is not done a second time.
void report_done_before(const RunContext& context) {
  const std::string& resume = context.input.run.resume;
  const Beginning beginning = beginning_of(context);
  if (context.invocation.overwrite && !beginning.overwrite) {
    context.log.info("an earlier start of this job has done --overwrite: the run resumes");
  }
  if (beginning.own_first && resume != "auto") {
    context.log.info("an earlier start began from " + resume + ": resuming from this run's own checkpoints");
  }
}

}  // namespace

void check_directory(const RunContext& context) {
  const config::Config& input = context.input;
  if (input.trains()) check_checkpoint_owner(input.run.directory);
  if (context.invocation.validate) return require_writable(input.run.directory);
  check_run_directory(input.run.directory, context.resolved, beginning_of(context).overwrite, continues_there(context));
}

std::string directory_note(const RunContext& context) {
  const config::Config& input = context.input;
  std::string why;
  collectively(context.world, [&] {
    if (context.world.rank() != 0) return;
    why = directory_conflict(inspect_run_directory(input.run.directory), input.run.directory, context.resolved,
                             beginning_of(context).overwrite, continues_there(context));
  });
  return context.world.broadcast(why, 0);
}

void report_load(const LoadNotes& notes, const RunBasics& run) {
  if (!notes.lines.empty()) run.log.info(notes.lines);
  if (!notes.random_head.empty()) {
    run.log.warning(
        "[model.lora] train_head = false leaves random values as they are, because model.pretrained lacks " +
        notes.random_head);
  }
  if (notes.head.empty()) return;
  if (notes.is_doubtful) return run.log.warning(notes.head);
  run.log.info("note: " + notes.head);
}

std::unique_ptr<io::RunLock> lock_run_directory(const RunContext& context) {
  std::unique_ptr<io::RunLock> lock;
  collectively(context.world, [&] {
    if (context.world.rank() != 0) return;
    lock = std::make_unique<io::RunLock>(context.input.run.directory);
    if (!lock->took_over().empty()) {
      context.log.warning(lock->took_over() + "; this start takes it over.");
    }
    check_directory(context);
    report_done_before(context);
  });
  context.failure.set(context.input.run.directory, context.world.broadcast(lock ? lock->text() : "", 0));
  return lock;
}

}  // namespace bert_hpc::app
