#include "app/checkpoint/checkpointer.hpp"

#include <unistd.h>

#include <limits>

#include "app/checkpoint/checkpointer_state.hpp"
#include "app/plan/checkpoint_interval.hpp"
#include "app/run/checkpoint_owner.hpp"
#include "app/run/collective.hpp"
#include "bert_hpc/comm/objects.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/io/provenance.hpp"

namespace bert_hpc::app {

Checkpointer::Checkpointer(const Parts& parts, CheckpointTexts texts)
    : state_(std::make_unique<State>(parts, std::move(texts))) {
  State& s = *state_;
  s.run_id = s.world().broadcast(io::utc_now() + ' ' + io::host_name() + ' ' + std::to_string(::getpid()), 0);
  s.gather_files();
  collectively(s.world(), [&] {
    if (!s.is_root()) return;
    own_checkpoints(s.parts.context.input.run.directory);
    s.folder.prepare();
    s.folder.require_space(s.bytes + s.parts.results.journal_bytes());
  });
  s.parts.context.listener.on_urgent([&s] { s.request_early(); });
}

Checkpointer::~Checkpointer() {
  state_->parts.context.listener.on_urgent(nullptr);
  state_->cancelled = true;
  state_->begin_saving();
}

StepFlags Checkpointer::flags() {
  State& s = *state_;
  const int phase = s.phase;
  const bool clock_says = s.is_root() && State::seconds_since(s.last) >= s.interval();
  const bool asked = s.parts.requests.take_checkpoint();
  s.wall_time.step(s.parts.context.seconds());
  return {.stop = wants_stop() ? 1.0 : 0.0,
          .checkpoint = asked || clock_says ? 1.0 : 0.0,
          .written = phase >= State::written ? 1.0 : 0.0,
          .failed = phase == State::failed ? 1.0 : 0.0};
}

void Checkpointer::expect(double run_seconds) {
  state_->run_seconds = run_seconds;
}

bool Checkpointer::wants_stop() const {
  const State& s = *state_;
  return s.parts.requests.stop() || (s.is_root() && s.wall_time.is_over(s.parts.context.seconds()));
}

void Checkpointer::follow(const StepFlags& agreed) {
  State& s = *state_;
  if (s.under_way && agreed.written == s.world().size()) s.end(agreed);
  if (s.is_root()) s.report_named();
}

bool Checkpointer::due(std::int64_t done, const StepFlags& agreed) const {
  const State& s = *state_;
  if (done == s.step) return false;
  return agreed.stop > 0 || agreed.checkpoint > 0 || (s.settings.every_steps && done % *s.settings.every_steps == 0);
}

std::int64_t Checkpointer::last_step() const {
  return state_->step;
}

void Checkpointer::save(const TrainingState& state) {
  State& s = *state_;
  {
    const auto timed = s.parts.timers.measure("checkpoint wait");
    s.begin_saving();
    s.worker.wait();
    s.settle_early();
    if (s.under_way) {
      const StepFlags mine = {.written = 1, .failed = s.phase == State::failed ? 1.0 : 0.0};
      s.end({.written = s.world().sum(mine.written), .failed = s.world().sum(mine.failed)});
    }
    // Rank 0's thread may still be naming the one before, from the manifest before.
    if (s.is_root()) {
      s.worker.wait();
      s.report_named();
    }
    s.last_failed = false;
    s.step = state.done;
    s.begun = s.last = State::Clock::now();
    s.history_bytes = s.parts.results.journal_bytes();
    if (!s.has_space()) return s.end_saving();
    s.snapshot.copy();
  }
  s.under_way = true;
  s.best = state.best.checkpoint();
  if (s.is_root()) {
    s.manifest = s.manifest_of(state);
    s.manifest_pending = true;
  }
  s.phase = State::writing;  // before end_saving(), see own_queued()
  s.worker.add([this, at = state.done] { state_->write_own(at); });
  s.end_saving();
}

bool Checkpointer::finish() {
  State& s = *state_;
  const auto timed = s.parts.timers.measure("checkpoint wait");
  s.begin_saving();  // to the end: nothing changes any more
  s.worker.wait();
  s.settle_early();
  if (s.under_way) {
    const double failed = s.phase == State::failed ? 1.0 : 0.0;
    s.end({.written = s.world().sum(1.0), .failed = s.world().sum(failed)});
  }
  s.worker.wait();
  if (s.is_root()) s.report_named();
  return !s.world().any(s.is_root() && s.last_failed);
}

double Checkpointer::State::interval() const {
  if (settings.every_minutes) return *settings.every_minutes * 60;
  if (settings.every_steps) return std::numeric_limits<double>::infinity();
  return checkpoint_interval(run_seconds, wall_time.saving_seconds());
}

void Checkpointer::State::gather_files() {
  std::vector<core::TensorPiece> mine;
  for (const core::ArenaPiece& stored : pieces) mine.push_back(stored.piece);
  auto all = comm::all_gather_objects(world(), mine);
  if (!is_root()) return;
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (!all[r].empty()) files.push_back({static_cast<int>(r), std::move(all[r])});
  }
}

io::CheckpointManifest Checkpointer::State::manifest_of(const TrainingState& state) const {
  io::CheckpointManifest result;
  result.id = run_id + ' ' + std::to_string(state.done);
  result.step = state.done;
  result.tensors = tensors;
  result.files = files;
  result.quantities = quantities_of(parts.optimizer.states().kinds());
  result.texts = texts;
  result.texts.emplace_back("written", io::utc_now());
  put(state, result);
  return result;
}

io::Durability Checkpointer::State::durability() const {
  const bool hurry = urgent && parts.requests.stop();
  return hurry ? io::Durability::buffered : io::Durability::forced;
}

/// On this rank's thread. Writes this rank's file, and on rank 0 the metric history, which is added to `contents`.
/// Returns "" or the reason of a failure.
std::string Checkpointer::State::write_files(std::int64_t at, std::int64_t history, io::CheckpointManifest& contents,
                                             io::Durability how) {
  try {
    const std::string path = folder.begin(at);
    if (snapshot.elements() > 0) {
      io::write_checkpoint_file(path, world().rank(), run_id + ' ' + std::to_string(at), at, snapshot.quantities(),
                                parts.hdf5, cancelled, how);
    }
    if (is_root()) {
      const auto checksum = parts.results.copy_journal(history, path + '/' + io::history_name, how);
      history_lost = !checksum;
      if (checksum) io::put_history(contents, history, *checksum);
    }
    own_written = at;
    return {};
  } catch (const std::exception& failure) {
    return failure.what();
  }
}

/// On this rank's thread.
void Checkpointer::State::write_own(std::int64_t at) {
  error = write_files(at, history_bytes, manifest, durability());
  phase = error.empty() ? written : failed;
}

/// On rank 0's thread. All ranks' files are there: from here on runs resume from this checkpoint. Throws.
void Checkpointer::State::publish(const io::CheckpointManifest& whole, io::Durability how) {
  parts.results.require_lock();
  if (how == io::Durability::forced) parts.results.sync();
  if (urgent) remove_marks(whole);
  io::write_manifest(folder.staging(whole.step), whole, parts.hdf5, how);
  folder.publish(whole.step, how);
}

/// On rank 0's thread, when all files are there.
void Checkpointer::State::name(const io::CheckpointManifest& whole, std::optional<std::int64_t> best_step) {
  if (!manifest_pending) return;  // done early
  const io::Durability how = durability();
  std::string problem, left;
  try {
    publish(whole, how);
    manifest_pending = false;
  } catch (const std::exception& failure) {
    problem = failure.what();
  }
  try {
    if (problem.empty()) folder.set_pointers(whole.step, best_step, how);
    // An older one that is on the disk must not go for one that is not.
    if (problem.empty() && how == io::Durability::forced) left = folder.prune(settings.keep);
  } catch (const std::exception& failure) {
    left = failure.what();
  }
  if (!left.empty()) {
    left = "after that checkpoint, which is complete: " + left;
  } else if (history_lost) {
    left = "that checkpoint holds no metric history: the run's metrics.journal was truncated or cannot be read.";
  }
  const std::lock_guard lock(mutex);
  named_seconds = seconds_since(begun);
  naming_error = problem;
  left_over = left;
  named = problem.empty() ? io::checkpoint_name(whole.step) : "";
}

/// All ranks have ended their part. Collective where some failed.
void Checkpointer::State::end(const StepFlags& agreed) {
  under_way = false;
  last_failed = false;
  const int own = phase.exchange(idle);
  if (agreed.failed > 0) manifest_pending = false;
  if (agreed.failed == 0) {
    if (is_root()) worker.add([this] { name(manifest, best); });
    return;
  }
  const std::vector<std::string> errors = world().all_gather(own == failed ? error : "");
  if (!is_root()) return;
  std::string first;
  for (const std::string& text : errors) {
    if (first.empty()) first = text;
  }
  try {
    folder.abandon(step);
  } catch (const core::Error&) {  // the error is reported already
  }
  naming_error = first;
  report_named();
}

/// On rank 0: what became of the last one.
void Checkpointer::State::report_named() {
  const std::lock_guard lock(mutex);
  core::Log& log = parts.context.log;
  if (!named.empty()) {
    log.info("checkpoint " + named + " after " + core::format_duration(named_seconds));
    wall_time.saved(named_seconds);
    named.clear();
    if (!left_over.empty() && left_over != told_left_over) log.warning(left_over);
    told_left_over = left_over;
  }
  if (naming_error.empty()) return;
  last_failed = true;
  log.warning("the checkpoint of step " + std::to_string(step) + " was not written; the previous one is kept. " +
              naming_error);
  naming_error.clear();
}

/// Collective. Rank 0 measures for all before any rank begins: a late rank would count what others have written.
bool Checkpointer::State::has_space() {
  std::string problem;
  try {
    if (is_root()) folder.require_space(bytes + history_bytes);
  } catch (const std::exception& failure) {
    problem = failure.what();
  }
  if (!world().any(!problem.empty())) return true;
  {
    const std::lock_guard lock(mutex);
    naming_error = problem;
  }
  if (is_root()) report_named();
  return false;
}

}  // namespace bert_hpc::app
