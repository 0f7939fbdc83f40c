#include "bert_hpc/app/checkpointer.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "background_worker.hpp"
#include "bert_hpc/app/collective.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/io/provenance.hpp"
#include "checkpoint_parts.hpp"
#include "wall_time.hpp"

namespace bert_hpc::app {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

struct Checkpointer::State {
  enum Phase { idle, writing, written, failed };

  State(const Parts& given, CheckpointTexts said, std::function<void()> prepare)
      : parts(given),
        folder(checkpoint_folder(given.context.input)),
        settings(given.context.input.checkpoint),
        texts(std::move(said)),
        before_naming(std::move(prepare)),
        tensors(whole_tensors(given.assembly)),
        pieces(parts_to_save(given.assembly, given.sums, tensors)),
        bytes(checkpoint_bytes(given.assembly, given.context.world.size())),
        wall_time(given.context, bytes) {}

  comm::Communicator& world() const { return parts.context.world; }
  bool speaks() const { return world().rank() == 0; }
  std::int64_t own_elements() const { return static_cast<std::int64_t>(snapshot.size()) / io::quantities; }

  void gather_files();
  void copy();
  io::CheckpointManifest manifest_of(const TrainingState& state) const;
  void write_own(std::int64_t step);
  void name(const io::CheckpointManifest& manifest, std::optional<std::int64_t> best);
  void end(const Votes& agreed);
  void tell_named();
  bool has_space();

  Parts parts;
  io::CheckpointFolder folder;
  config::Checkpoint settings;
  CheckpointTexts texts;
  std::function<void()> before_naming;
  std::vector<core::WholeTensor> tensors;
  std::vector<core::PlacedPiece> pieces;  // what this rank saves
  std::int64_t bytes;
  WallTime wall_time;
  core::Buffer<float> snapshot;                     // (quantities, own elements)
  std::vector<io::CheckpointManifest::File> files;  // of all ranks; rank 0
  std::string run_id;                               // of this start of the run

  bool under_way = false;            // agreed by all ranks
  std::int64_t step = -1;            // of the last one that began
  std::optional<std::int64_t> best;  // as of that step
  Clock::time_point begun, last = Clock::now();
  io::CheckpointManifest manifest;  // of the one under way; rank 0
  std::atomic<int> phase = idle;
  std::string error;  // of this rank, once it failed
  std::atomic<bool> cancelled = false;
  // Rank 0: what its thread has to tell.
  std::mutex mutex;
  std::string named, naming_error, left_over;
  double named_seconds = 0;
  bool last_failed = false;    // rank 0
  std::string told_left_over;  // rank 0
  BackgroundWorker worker;     // last: it uses the others
};

void Checkpointer::State::gather_files() {
  const std::vector<std::string> all = world().all_gather(text_of(pieces));
  if (!speaks()) return;
  for (std::size_t r = 0; r < all.size(); ++r) {
    std::vector<core::TensorPiece> theirs = pieces_of(all[r]);
    if (!theirs.empty()) files.push_back({static_cast<int>(r), std::move(theirs)});
  }
}

/// Between two steps: parameters and moments of this rank's pieces, one quantity after the other.
void Checkpointer::State::copy() {
  const std::span<const float> values = parts.assembly.parameters.values();
  const std::span<const float> first = parts.optimizer.first_moments(), second = parts.optimizer.second_moments();
  const MomentPlaces moments(parts.sums.owned());
  const auto elements = static_cast<std::size_t>(own_elements());
  std::size_t next = 0;
  for (const core::PlacedPiece& piece : pieces) {
    const auto count = static_cast<std::size_t>(piece.piece.elements()), arena = static_cast<std::size_t>(piece.arena);
    const std::size_t moment = moments.of(piece.arena);
    ops::copy_to_host(values.subspan(arena, count), {snapshot.data() + next, count});
    ops::copy_to_host(first.subspan(moment, count), {snapshot.data() + elements + next, count});
    ops::copy_to_host(second.subspan(moment, count), {snapshot.data() + 2 * elements + next, count});
    next += count;
  }
}

io::CheckpointManifest Checkpointer::State::manifest_of(const TrainingState& state) const {
  io::CheckpointManifest result;
  result.id = run_id + ' ' + std::to_string(state.done);
  result.step = state.done;
  result.tensors = tensors;
  result.files = files;
  result.texts = texts;
  result.texts.emplace_back("written", io::utc_now());
  put(state, result);
  return result;
}

/// On this rank's thread.
void Checkpointer::State::write_own(std::int64_t at) {
  try {
    const std::string place = folder.begin(at);
    const auto elements = static_cast<std::size_t>(own_elements());
    io::Payload payload;
    for (std::size_t q = 0; q < payload.size(); ++q) payload[q] = {snapshot.data() + q * elements, elements};
    if (elements > 0) {
      io::write_checkpoint_file(place, world().rank(), run_id + ' ' + std::to_string(at), at, payload, parts.hdf5,
                                cancelled);
    }
    phase = written;
  } catch (const std::exception& failure) {
    error = failure.what();
    phase = failed;
  }
}

/// On rank 0's thread, when all files are there.
void Checkpointer::State::name(const io::CheckpointManifest& whole, std::optional<std::int64_t> best_step) {
  std::string problem, left;
  try {
    if (before_naming) before_naming();
    io::write_manifest(folder.aside(whole.step), whole, parts.hdf5);
    folder.publish(whole.step);
  } catch (const std::exception& failure) {
    problem = failure.what();
  }
  // From here on it is what a run goes on from, whatever becomes of the rest.
  try {
    if (problem.empty()) folder.set_pointers(whole.step, best_step);
    if (problem.empty()) left = folder.prune(settings.keep);
  } catch (const std::exception& failure) {
    left = failure.what();
  }
  const std::lock_guard lock(mutex);
  named_seconds = seconds_since(begun);
  naming_error = problem;
  left_over = left;
  named = problem.empty() ? io::checkpoint_name(whole.step) : "";
}

/// All ranks have ended their part. Collective where some failed.
void Checkpointer::State::end(const Votes& agreed) {
  under_way = false;
  last_failed = false;
  const int own = phase.exchange(idle);
  if (agreed.failed == 0) {
    if (speaks()) worker.add([this] { name(manifest, best); });
    return;
  }
  const std::vector<std::string> errors = world().all_gather(own == failed ? error : "");
  if (!speaks()) return;
  std::string first;
  for (const std::string& text : errors) {
    if (first.empty()) first = text;
  }
  try {
    folder.abandon(step);
  } catch (const core::Error&) {  // why nothing can be written is told already
  }
  naming_error = first;
  tell_named();
}

/// On rank 0: what became of the last one.
void Checkpointer::State::tell_named() {
  const std::lock_guard lock(mutex);
  core::Log& log = parts.context.log;
  if (!named.empty()) {
    log.info("checkpoint " + named + " after " + core::format_duration(named_seconds));
    wall_time.saved(named_seconds);
    named.clear();
    if (!left_over.empty() && left_over != told_left_over) {
      log.warning("after that checkpoint, which is whole: " + left_over);
    }
    told_left_over = left_over;
  }
  if (naming_error.empty()) return;
  last_failed = true;
  log.warning("the checkpoint of step " + std::to_string(step) + " was not written; the one before stays. " +
              naming_error);
  naming_error.clear();
}

/// Collective. Rank 0 asks for all before any begins: who comes late would count what others have written already.
bool Checkpointer::State::has_space() {
  std::string problem;
  try {
    if (speaks()) folder.require_space(bytes);
  } catch (const std::exception& failure) {
    problem = failure.what();
  }
  if (!world().any(!problem.empty())) return true;
  {
    const std::lock_guard lock(mutex);
    naming_error = problem;
  }
  if (speaks()) tell_named();
  return false;
}

Checkpointer::Checkpointer(const Parts& parts, CheckpointTexts texts, std::function<void()> before_naming)
    : state_(std::make_unique<State>(parts, std::move(texts), std::move(before_naming))) {
  State& s = *state_;
  std::int64_t elements = 0;
  for (const core::PlacedPiece& piece : s.pieces) elements += piece.piece.elements();
  s.snapshot = core::Buffer<float>(elements * io::quantities, core::MemoryKind::host);
  s.run_id = s.world().broadcast(io::utc_now() + ' ' + io::host_name() + ' ' + std::to_string(::getpid()), 0);
  s.gather_files();
  collectively(s.world(), [&] {
    if (!s.speaks()) return;
    s.folder.prepare();
    s.folder.require_space(s.bytes);
  });
}

Checkpointer::~Checkpointer() {
  state_->cancelled = true;
}

Votes Checkpointer::votes() {
  State& s = *state_;
  const int phase = s.phase;
  const bool clock_says =
      s.speaks() && s.settings.every_minutes && seconds_since(s.last) >= *s.settings.every_minutes * 60;
  const bool asked = s.parts.requests.take_checkpoint();
  s.wall_time.step();
  return {.stop = wants_stop() ? 1.0 : 0.0,
          .checkpoint = asked || clock_says ? 1.0 : 0.0,
          .written = phase >= State::written ? 1.0 : 0.0,
          .failed = phase == State::failed ? 1.0 : 0.0};
}

bool Checkpointer::wants_stop() const {
  const State& s = *state_;
  return s.parts.requests.stop() || (s.speaks() && s.wall_time.is_over());
}

void Checkpointer::follow(const Votes& agreed) {
  State& s = *state_;
  if (s.under_way && agreed.written == s.world().size()) s.end(agreed);
  if (s.speaks()) s.tell_named();
}

bool Checkpointer::due(std::int64_t done, const Votes& agreed) const {
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
    if (s.under_way) {
      s.worker.wait();
      const Votes mine = {.written = 1, .failed = s.phase == State::failed ? 1.0 : 0.0};
      s.end({.written = s.world().sum(mine.written), .failed = s.world().sum(mine.failed)});
    }
    // Rank 0's thread may still be naming the one before, from the manifest before.
    if (s.speaks()) {
      s.worker.wait();
      s.tell_named();
    }
    s.last_failed = false;
    s.step = state.done;
    s.begun = s.last = Clock::now();
    if (!s.has_space()) return;
    s.copy();
  }
  s.under_way = true;
  s.phase = State::writing;
  s.best = state.best.checkpoint();
  if (s.speaks()) s.manifest = s.manifest_of(state);
  s.worker.add([this, at = state.done] { state_->write_own(at); });
}

bool Checkpointer::finish() {
  State& s = *state_;
  const auto timed = s.parts.timers.measure("checkpoint wait");
  s.worker.wait();
  if (s.under_way) {
    const double failed = s.phase == State::failed ? 1.0 : 0.0;
    s.end({.written = s.world().sum(1.0), .failed = s.world().sum(failed)});
  }
  s.worker.wait();
  if (s.speaks()) s.tell_named();
  return !s.world().any(s.speaks() && s.last_failed);
}

}  // namespace bert_hpc::app
