#include "app/report/results.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>

#include "app/engine/model_export.hpp"
#include "app/engine/sentence_modules.hpp"
#include "app/report/bytes_read.hpp"
#include "app/run/collective.hpp"
#include "app/run/machine.hpp"
#include "app/run/run_directory.hpp"
#include "bert_hpc/comm/objects.hpp"
#include "bert_hpc/core/version.hpp"
#include "bert_hpc/data/shard_tokenizer.hpp"
#include "bert_hpc/io/provenance.hpp"
#include "bert_hpc/model/hf_weights.hpp"

namespace bert_hpc::app {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::string tokenizer_folder(const config::Config& input, const data::ShardInfo& shards, std::int64_t vocab_size) {
  if (shards.columns > 0) return "";
  for (const auto* paths : {&input.data.train, &input.data.test, &input.data.validation}) {
    if (paths->empty()) continue;
    const fs::path parent = fs::path(paths->front()).parent_path();
    const std::string folder = parent.empty() ? "." : parent.string();
    if (data::is_vocabulary_of(tokenize::read_tokenizer_folder(folder), shards, vocab_size)) return folder;
  }
  if (!input.model.pretrained) return "";
  // It may have a tokenizer of another kind, whose vocabulary is not compared.
  const tokenize::TokenizerFolder folder = tokenize::read_tokenizer_folder(*input.model.pretrained);
  const bool other = folder.has_vocabulary() && !data::is_vocabulary_of(folder, shards, vocab_size);
  return other ? "" : folder.path;
}

ModelFacts facts_of(const ModelInstance& model) {
  ModelFacts facts{.label_names = model.config.label_names};
  for (const data::LabelScale& scale : model.output_rules.scales) {
    if (scale.bounded) continue;
    facts.label_means.push_back(scale.mean);
    facts.label_deviations.push_back(scale.deviation);
  }
  const core::ParameterStore whole_model(model.all_parameters(), core::ParameterStore::Arenas::none);
  facts.parameters = whole_model.parameters();
  if (model.trains) facts.trained_parameters = whole_model.trainable_parameters();
  return facts;
}

Results::Results(const RunContext& context, io::RunLock* run_lock, const ModelFacts& model, std::mutex& hdf5,
                 const std::optional<Continuation>& continuation)
    : input_(context.input),
      lock_(run_lock),
      world_(context.world),
      hdf5_(hdf5),
      monitor_(core::is_gpu_build() ? gpu_usage(context.device.identity) : process_usage(context.threads)) {
  collectively(world_, [&] {
    if (world_.rank() != 0) return;
    io::RunInfo info;
    info.version = core::version();
    info.source_revision = core::revision();
    info.resolved_input = context.resolved.text;
    info.mode = input_.run.mode;
    info.task = input_.task.name;
    info.label_names = model.label_names;
    info.label_means = model.label_means;
    info.label_deviations = model.label_deviations;
    info.parameters = model.parameters;
    info.trained_parameters = model.trained_parameters;
    info.provenance = io::collect_provenance();
    info.data = context.grid.data;
    info.pipeline = context.grid.pipeline;
    info.tensor = context.grid.tensor;
    io::MetricsWriter::Options options;
    options.events = input_.log.tensorboard;
    if (continuation) {
      continue_run(input_.run.directory, info.resolved_input, continuation->log_bytes);
      options.resume_step = continuation->step;
      options.history = continuation->history;
    } else {
      begin_run(input_.run.directory, info.resolved_input, start_of(input_));
    }
    context.log.attach(input_.run.directory + "/log.txt");
    const std::lock_guard lock(hdf5_);
    metrics_ = std::make_unique<io::MetricsWriter>(input_.run.directory, info, options);
    for (const std::string& warning : metrics_->warnings()) context.log.warning(warning);
  });
}

Results::~Results() {
  if (metrics_ && lost()) metrics_->abandon();
  if (!metrics_ || finished_ || lost()) return;
  try {
    metrics_->set_status(io::RunStatus::failed);
    const std::lock_guard lock(hdf5_);
    metrics_->close();
    end_run(input_.run.directory, RunEnd::failed);
  } catch (const std::exception&) {  // the failure that led here is the one to report
  }
}

void Results::record_step(const io::StepRow& row) {
  if (metrics_) metrics_->record_step(row);
}

void Results::record_evaluation(const std::string& split, const io::EvaluationRow& row) {
  if (metrics_) metrics_->record_evaluation(split, row);
}

void Results::record_loss_scale(const io::LossScaleRow& row) {
  if (metrics_) metrics_->record_loss_scale(row);
}

void Results::record_data(std::int64_t step, double epoch, std::int64_t file_bytes, std::int64_t bytes_read) {
  const BytesRead mine{io::host_name(), bytes_read - std::exchange(bytes_recorded_, bytes_read)};
  const std::vector<BytesRead> ranks = comm::all_gather_objects(world_, mine);
  if (metrics_) metrics_->record_data({step, epoch, file_bytes, bytes_of_nodes(ranks)});
}

void Results::record_efficiency(const io::EfficiencyRow& row) {
  if (metrics_) metrics_->record_efficiency(row);
}

void Results::poll() {
  if (!metrics_ || lost()) return;
  const std::lock_guard lock(hdf5_);
  metrics_->poll();
}

void Results::sync() const {
  if (metrics_) metrics_->sync();
}

bool Results::lost() const {
  return lock_ != nullptr && lock_->lost();
}

void Results::require_lock() const {
  if (lock_ != nullptr) lock_->require();
}

std::int64_t Results::log_bytes() const {
  std::error_code problem;
  const auto bytes = metrics_ ? fs::file_size(input_.run.directory + "/log.txt", problem) : 0;
  return problem ? 0 : static_cast<std::int64_t>(bytes);
}

std::int64_t Results::journal_bytes() const {
  return metrics_ ? metrics_->journal_bytes() : 0;
}

std::optional<std::uint32_t> Results::copy_journal(std::int64_t bytes, const std::string& to,
                                                   io::Durability durability) const {
  return metrics_->copy_journal(bytes, to, durability);
}

void Results::export_model(ModelInstance& model, const data::ShardInfo& shards) {
  std::string tokenizer;
  collectively(world_, [&] {
    require_lock();
    if (world_.rank() == 0) tokenizer = tokenizer_folder(input_, shards, model.config.vocab_size);
  });
  app::export_model(model, world_, model_folder(), tokenizer, sentence_files_of(input_, model, shards));
  if (!model.plan.low_rank) return;
  app::export_adapter(model, world_, adapter_folder(), input_.model.pretrained.value_or(""));
}

objectives::PredictionsFacts Results::predictions_of(const std::string& split, const ModelInstance& model) const {
  return {.directory = input_.run.directory,
          .task = *model.objective.task,
          .predict = model.objective.predict,
          .split = split,
          .label_names = model.config.label_names,
          .least_output = model.output_rules.least_output,
          .value_levels = model.output_rules.levels,
          .require_directory = [this] { require_lock(); }};
}

std::vector<io::TimerRow> Results::record_timers(const core::Timers& timers, double wall_seconds) {
  std::vector<SectionTime> mine;
  SectionTime other{"other", 0, wall_seconds, wall_seconds};
  for (const core::Timers::Section& section : timers.sections()) {
    mine.push_back({std::string(section.name), section.calls, section.seconds, section.device_seconds});
    other.seconds -= section.seconds;
    other.device_seconds -= section.device_seconds;  // NaN stays NaN
  }
  other.seconds = std::max(other.seconds, 0.0);
  if (other.device_seconds < 0) other.device_seconds = 0;
  mine.push_back(other);
  std::vector<io::TimerRow> rows = timers_of_all(comm::all_gather_objects(world_, mine));
  if (metrics_) metrics_->record_timers(rows);
  return rows;
}

void Results::record_profile(const io::Profile& profile) {
  if (metrics_) metrics_->record_profile(profile);
}

std::vector<io::TimerRow> timers_of_all(const std::vector<std::vector<SectionTime>>& ranks) {
  std::vector<io::TimerRow> rows;
  std::vector<std::size_t> contributors;  // of each row
  const auto count = static_cast<double>(ranks.size());
  for (const std::vector<SectionTime>& sections : ranks) {
    for (const SectionTime& section : sections) {
      auto row = std::find_if(rows.begin(), rows.end(), [&](const io::TimerRow& r) { return r.name == section.name; });
      if (row == rows.end()) {
        const double device = section.device_seconds;
        row = rows.insert(rows.end(), {section.name, 0, section.seconds, 0, 0, device, 0 * device, device});
        contributors.push_back(0);
      }
      ++contributors[static_cast<std::size_t>(row - rows.begin())];
      row->calls = std::max(row->calls, section.calls);
      row->seconds_min = std::min(row->seconds_min, section.seconds);
      row->seconds_max = std::max(row->seconds_max, section.seconds);
      row->seconds_avg += section.seconds / count;
      row->device_seconds_min = std::min(row->device_seconds_min, section.device_seconds);
      row->device_seconds_max = std::max(row->device_seconds_max, section.device_seconds);
      row->device_seconds_avg += section.device_seconds / count;  // NaN stays NaN
    }
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (contributors[r] == ranks.size()) continue;
    rows[r].seconds_min = 0;  // of a rank that was never there
    if (rows[r].has_device()) rows[r].device_seconds_min = 0;
  }
  return rows;
}

std::vector<io::MemoryRow> memory_of_all(const std::vector<MemoryPlan>& ranks) {
  std::vector<io::MemoryRow> rows;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const auto& [purpose, bytes] : ranks[rank]) {
      auto row = std::find_if(rows.begin(), rows.end(), [&](const io::MemoryRow& r) { return r.purpose == purpose; });
      if (row == rows.end()) row = rows.insert(rows.end(), {purpose, std::vector<std::int64_t>(ranks.size())});
      row->bytes[rank] += bytes;
    }
  }
  return rows;
}

/// The series of all ranks, up to the end of the shortest.
void Results::record_samples(const std::vector<std::vector<UsageSample>>& samples) {
  if (!metrics_) return;
  std::size_t most = 0, least = std::numeric_limits<std::size_t>::max();
  for (const auto& series : samples) most = std::max(most, series.size());
  for (const auto& series : samples) least = series.empty() ? least : std::min(least, series.size());
  for (std::size_t i = 0; i < std::min(least, most); ++i) {
    std::vector<double> utilisation, power, memory;
    double seconds = 0;
    for (const auto& series : samples) {
      utilisation.push_back(series.empty() ? std::numeric_limits<double>::quiet_NaN() : series[i].utilisation);
      power.push_back(series.empty() ? std::numeric_limits<double>::quiet_NaN() : series[i].power);
      memory.push_back(series.empty() ? std::numeric_limits<double>::quiet_NaN() : series[i].memory);
      if (!series.empty()) seconds = series[i].seconds;
    }
    metrics_->record_rank_sample(seconds, utilisation, power, memory);
  }
}

std::vector<io::RankRow> Results::record_ranks(const RunContext& context, const std::string& device,
                                               const MemoryPlan& planned, const RankTime& time) {
  io::RankRow mine;
  mine.host = io::host_name();
  mine.device = device;
  mine.threads = context.threads;
  mine.peak_memory = process_memory().peak_resident;
  mine.start_memory = context.start_memory;
  mine.planned_memory = total(planned);
  mine.computing = time.computing;
  mine.communicating = time.communicating;
  mine.waiting = time.waiting;
  mine.utilisation = time.wall > 0 ? time.computing / time.wall : std::numeric_limits<double>::quiet_NaN();
  monitor_.finish();
  const UsageSummary gpu = summary_of(core::is_gpu_build() ? monitor_.samples() : std::vector<UsageSample>());
  mine.power = gpu.power;
  mine.energy = gpu.energy;
  mine.gpu_utilisation = gpu.utilisation;
  mine.gpu_memory = gpu.peak_memory;
  const std::vector<io::RankRow> rows = comm::all_gather_objects(world_, mine);
  const std::vector<std::vector<UsageSample>> samples = comm::all_gather_objects(world_, monitor_.samples());
  record_samples(samples);
  const std::vector<MemoryPlan> plans = comm::all_gather_objects(world_, planned);
  if (metrics_) metrics_->record_ranks(rows);
  if (metrics_) metrics_->record_memory(memory_of_all(plans));
  return rows;
}

void Results::stop() {
  collectively(world_, [&] {
    if (!metrics_) return;
    require_lock();
    metrics_->set_status(io::RunStatus::stopped);
    const std::lock_guard lock(hdf5_);
    metrics_->close();
    end_run(input_.run.directory, RunEnd::stopped);
    finished_ = true;
  });
}

void Results::finish(const std::vector<std::pair<std::string, double>>& totals) {
  collectively(world_, [&] {
    if (!metrics_) return;
    require_lock();
    for (const auto& [name, value] : totals) metrics_->set_total(name, value);
    metrics_->set_status(io::RunStatus::finished);
    const std::lock_guard lock(hdf5_);
    metrics_->close();
    end_run(input_.run.directory, RunEnd::finished);
    finished_ = true;
  });
}

}  // namespace bert_hpc::app
