#include "app/checkpoint/checkpointer.hpp"

#include <unistd.h>

#include "app/checkpoint/checkpointer_state.hpp"
#include "app/run/checkpoint_owner.hpp"
#include "app/run/collective.hpp"
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
  s.phase = State::writing;
  s.best = state.best.checkpoint();
  if (s.is_root()) {
    s.manifest = s.manifest_of(state);
    s.manifest_pending = true;
  }
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

}  // namespace bert_hpc::app
