#include "bert_hpc/io/metrics.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <mutex>
#include <optional>
#include <string>

#include "bert_hpc/core/text_file.hpp"
#include "bert_hpc/io/atomic_write.hpp"
#include "bert_hpc/io/journal.hpp"
#include "bert_hpc/io/provenance.hpp"
#include "metrics_events.hpp"
#include "metrics_tables.hpp"

namespace bert_hpc::io {

using core::Clock;
using detail::MetricsTables;

namespace {

/// Largest share of the time that snapshots may take; a long run writes its file less often.
constexpr double largest_share = 0.05;

/// Prefix of a kept metrics.h5, followed by the first step that it lacks, "-2" etc. if that name is taken, and ".h5".
constexpr std::string_view older_prefix = "metrics.before-step-";

/// Removes the leading digits of the text; false if there are none.
bool take_digits(std::string_view& text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  text.remove_prefix(digits);
  return digits > 0;
}

std::int64_t replay_into(MetricsTables& tables, const std::string& directory) {
  std::int64_t nonsense = 0;
  const auto apply = [&](std::string_view line) { nonsense += tables.apply(line) ? 0 : 1; };
  const std::int64_t bad = Journal::replay(metrics_journal_path(directory), detail::journal_title, apply);
  return bad + nonsense;
}

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

template <class Row>
Row stamped(Row row) {
  row.time = unix_time();
  return row;
}

/// Keeps the earlier metrics.h5 of a run that resumes after `step` without a journal. Returns a warning.
std::string keep_older_rows(const std::string& directory, std::int64_t step) {
  namespace fs = std::filesystem;
  const std::string path = metrics_path(directory),
                    stem = directory + '/' + std::string(older_prefix) + std::to_string(step + 1);
  if (!fs::exists(fs::symlink_status(path))) return "The rows of earlier steps are lost.";
  std::string kept = stem + ".h5";
  for (int i = 2; fs::exists(fs::symlink_status(kept)); ++i) kept = stem + '-' + std::to_string(i) + ".h5";
  fs::rename(path, kept);
  return "The rows of earlier steps are kept in '" + kept + "': metrics.h5 begins with step " +
         std::to_string(step + 1) + '.';
}

void check_name(const std::string& name, bool column) {
  static const std::vector<std::string> taken = {"step", "loss", "confusion_matrix", "per_class"};
  const bool good = !name.empty() && name.find('/') == std::string::npos && name != "." &&
                    !(column && std::find(taken.begin(), taken.end(), name) != taken.end());
  core::require(good, "metric or split name that cannot be a dataset's name");
}

}  // namespace

bool is_older_metrics(std::string_view name) {
  if (!name.starts_with(older_prefix)) return false;
  name.remove_prefix(older_prefix.size());
  if (!take_digits(name)) return false;
  if (name.starts_with('-')) {
    name.remove_prefix(1);
    if (!take_digits(name)) return false;
  }
  return name == ".h5";
}

std::string metrics_path(const std::string& directory) {
  return directory + "/metrics.h5";
}
std::string metrics_journal_path(const std::string& directory) {
  return directory + "/metrics.journal";
}
std::string events_path(const std::string& directory) {
  return directory + "/tensorboard";
}

struct MetricsWriter::State {
  std::string directory;
  double interval = 0;
  std::vector<std::string> warnings;
  std::mutex mutex;  ///< guards journal and pending; never held while HDF5 works
  std::unique_ptr<Journal> journal;
  std::vector<std::string> pending;  ///< recorded, not yet in the tables
  MetricsTables tables;              ///< used only by the I/O thread
  std::optional<detail::MetricsEvents> events;
  Clock* clock = nullptr;
  Clock::Time next{};  ///< earliest time of the next snapshot
  bool closed = false;

  void continue_journal(const std::string& path, const Options& options);
  void replace_journal(const std::string& path, std::string why, const Options& options);

  void record(std::string line) {
    const std::lock_guard lock(mutex);
    journal->append(line);
    pending.push_back(std::move(line));
  }
};

/// Continues the journal up to the step. Throws Damaged if rows that the checkpoint counts on are missing.
void MetricsWriter::State::continue_journal(const std::string& path, const Options& options) {
  if (!std::filesystem::exists(path)) {
    throw Journal::Damaged(core::ExitCode::files, "There is no '" + path + "' to continue.");
  }
  journal = std::make_unique<Journal>(Journal::resume(path));
  if (!options.history.empty() && !Journal::begins_with(path, options.history)) {
    throw Journal::Damaged(core::ExitCode::files, "'" + path + "' has changed since the checkpoint was written.");
  }
  const std::int64_t bad = replay_into(tables, directory);
  if (bad > 0) warnings.push_back("Skipped " + std::to_string(bad) + " damaged line(s) of '" + path + "'.");
  record(detail::encode_rewind(options.resume_step));
}

/// Moves an unusable journal out of the way and replaces it by the checkpoint's copy. Without a copy the journal starts
/// empty, because checkpoints are worth more than the rows of their past.
void MetricsWriter::State::replace_journal(const std::string& path, std::string why, const Options& options) {
  tables = {};
  pending.clear();
  std::string known;
  if (!options.history.empty()) {
    const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(options.history));
    known = core::read_text_file(options.history, bytes);
  }
  if (std::filesystem::exists(std::filesystem::symlink_status(path))) {
    const std::string kept = path + ".damaged";
    std::filesystem::rename(path, kept);
    why += " It is kept as '" + kept + "'.";
  }
  if (options.history.empty()) {
    warnings.push_back(why + ' ' + keep_older_rows(directory, options.resume_step));
    journal = std::make_unique<Journal>(Journal::create(path, detail::journal_title));
    return;
  }
  write_text_file(path, known);
  warnings.push_back(why + " The rows up to step " + std::to_string(options.resume_step) +
                     " come from the checkpoint.");
  continue_journal(path, options);
}

MetricsWriter::MetricsWriter(const std::string& directory, const RunInfo& info, const Options& options)
    : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.directory = directory;
  state.interval = options.interval;
  state.clock = options.clock;
  const std::string journal_path = metrics_journal_path(directory);
  if (options.resume_step >= 0) {
    try {
      state.continue_journal(journal_path, options);
    } catch (const Journal::Damaged& error) {
      state.replace_journal(journal_path, error.what(), options);
    }
  } else {
    state.journal = std::make_unique<Journal>(Journal::create(journal_path, detail::journal_title));
  }
  if (options.events) state.events.emplace(events_path(directory));
  RunInfo begun = info;
  if (begun.started.empty()) begun.started = utc_now();
  state.record(detail::encode(begun));
  snapshot();
}

MetricsWriter::~MetricsWriter() {
  try {
    close();
  } catch (...) {
    // The journal has every row; a caller that needs to know calls close().
  }
}

void MetricsWriter::record_step(const StepRow& row) {
  state_->record(detail::encode(stamped(row)));
}

void MetricsWriter::record_evaluation(const std::string& split, const EvaluationRow& row) {
  check_name(split, false);
  for (const auto& [name, value] : row.metrics) check_name(name, true);
  state_->record(detail::encode(split, stamped(row)));
}

void MetricsWriter::record_efficiency(const EfficiencyRow& row) {
  state_->record(detail::encode(row));
}
void MetricsWriter::record_loss_scale(const LossScaleRow& row) {
  state_->record(detail::encode(stamped(row)));
}
void MetricsWriter::record_data(const DataRow& row) {
  state_->record(detail::encode(row));
}
void MetricsWriter::record_timers(const std::vector<TimerRow>& rows) {
  state_->record(detail::encode(rows));
}
void MetricsWriter::record_ranks(const std::vector<RankRow>& rows) {
  state_->record(detail::encode(rows));
}

void MetricsWriter::record_memory(const std::vector<MemoryRow>& rows) {
  state_->record(detail::encode(rows));
}

void MetricsWriter::record_profile(const Profile& profile) {
  state_->record(detail::encode(profile));
}

void MetricsWriter::record_rank_sample(double seconds, const std::vector<double>& utilisation,
                                       const std::vector<double>& power, const std::vector<double>& memory) {
  state_->record(detail::encode_rank_sample({seconds, utilisation, power, memory}));
}

void MetricsWriter::set_status(RunStatus status) {
  state_->record(detail::encode_status(status));
}

void MetricsWriter::set_total(const std::string& name, double value) {
  state_->record(detail::encode_total(name, value));
}

void MetricsWriter::sync() {
  state_->journal->sync();  // rows may be appended meanwhile
}

std::int64_t MetricsWriter::journal_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->journal->bytes();
}

std::optional<std::uint32_t> MetricsWriter::copy_journal(std::int64_t bytes, const std::string& to,
                                                         Durability durability) const {
  return state_->journal->copy(bytes, to, durability);  // rows may be appended meanwhile
}

bool MetricsWriter::poll() {
  if (state_->clock->now() < state_->next) return false;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->pending.empty()) return false;
  }
  snapshot();
  return true;
}

void MetricsWriter::snapshot() {
  State& state = *state_;
  const Clock::Time begin = state.clock->now();
  std::vector<std::string> lines;
  {
    const std::lock_guard lock(state.mutex);
    lines.swap(state.pending);
  }
  for (const std::string& line : lines) core::require(state.tables.apply(line), "a recorded row that cannot be read");
  const std::string path = metrics_path(state.directory);
  write_file(path, state.tables.to_hdf5(path));
  if (state.events) state.events->follow(state.tables, unix_time());
  const std::chrono::duration<double> taken = state.clock->now() - begin;
  const std::chrono::duration<double> wait(std::max(state.interval, taken.count() / largest_share));
  state.next = begin + std::chrono::duration_cast<Clock::Duration>(wait);
}

void MetricsWriter::close() {
  if (state_->closed) return;
  state_->closed = true;
  snapshot();
  state_->journal->sync();
  if (state_->events) state_->events->sync();
}

void MetricsWriter::abandon() {
  state_->closed = true;
}

const std::vector<std::string>& MetricsWriter::warnings() const {
  return state_->warnings;
}

std::int64_t last_recorded_step(const std::string& directory) {
  detail::MetricsTables tables;
  try {
    Journal::replay(metrics_journal_path(directory), detail::journal_title,
                    [&](std::string_view line) { tables.apply(line); });
  } catch (const core::Error&) {  // no journal, or a damaged one: nothing is known
  }
  return tables.steps.empty() ? 0 : tables.steps.back().step;
}

std::int64_t journal_bytes(const JournalPlan& plan) {
  constexpr std::int64_t integer = std::numeric_limits<std::int64_t>::min();  // this value has the most digits
  constexpr double real = std::numeric_limits<double>::lowest();
  constexpr std::int64_t escaped = 2, beside_text = 4096;
  const auto bytes = [](const std::string& line) {
    return static_cast<std::int64_t>(line.size()) + Journal::line_bytes;
  };
  std::int64_t row =
      bytes(detail::encode(StepRow{integer, real, real, real, real, integer, integer, real, integer, real, integer})) +
      bytes(detail::encode(EfficiencyRow{integer, real, real, real}));
  if (plan.loss_scales) row += bytes(detail::encode(LossScaleRow{integer, real, integer, real}));
  const std::vector<std::pair<std::string, double>> metrics(static_cast<std::size_t>(plan.metrics),
                                                            {"macro_roc_auc", real});
  // In the matrix a count and its separator take two characters, and more only if the count is at least ten samples.
  const std::int64_t matrix = 2 * plan.classes * plan.classes + plan.samples / 10;
  const auto longest_count = static_cast<std::int64_t>(std::to_string(plan.samples).size());
  const std::int64_t evaluation =
      bytes(detail::encode("validation", EvaluationRow{integer, real, metrics, 0, {}, real, {}, {}})) + matrix +
      escaped * plan.metric_text + 3 * plan.counted_classes * (1 + longest_count);
  const DataRow data{integer, real, integer, std::vector<std::int64_t>(static_cast<std::size_t>(plan.nodes), integer)};
  // A call has some 200 bytes, and a step calls some hundred different ones.
  const std::int64_t profile = plan.profile ? std::int64_t{64} << 10 : 0;
  return beside_text + profile + escaped * plan.text + plan.rows * row + plan.evaluations * evaluation +
         plan.epochs * bytes(detail::encode(data));
}

}  // namespace bert_hpc::io
