// The journal's lines: how records are encoded, and how they change the tables.
#include "metrics_tables.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

#include "bert_hpc/core/error.hpp"
#include "metrics_line.hpp"

namespace bert_hpc::io::detail {

namespace {

constexpr std::array<const char*, 4> status_names = {"running", "finished", "failed", "stopped"};

template <class Row, class Known>
concept Is = std::is_same_v<std::remove_const_t<Row>, Known>;

// Fields of each row in the line's order, for both writing (a constant row) and reading.

const auto one_field = [](auto& line, auto& field) { line(field); };
const auto name_and_value = [](auto& line, auto& pair) { line(pair.first, pair.second); };

template <class Line>
void fields(Line& line, Is<RunInfo> auto& info) {
  line(info.version, info.source_revision, info.started, info.mode, info.task, info.resolved_input);
  line.list(info.label_names, one_field);
  line.list(info.provenance, name_and_value);
  line.last(info.data);
  line.last(info.pipeline);
  line.last(info.tensor);
  line.last_list(info.label_means, one_field);
  line.last_list(info.label_deviations, one_field);
  line.last(info.parameters);
  line.last(info.trained_parameters);
}

template <class Line>
void fields(Line& line, Is<StepRow> auto& row) {
  line(row.step, row.epoch, row.loss, row.learning_rate, row.gradient_norm, row.samples, row.tokens, row.seconds,
       row.skipped);
  line.last(row.time);
  line.last(row.computed_tokens);
}

template <class Line>
void fields(Line& line, Is<EvaluationRow> auto& row) {
  line(row.step, row.loss);
  line.list(row.metrics, name_and_value);
  line(row.classes);
  line.list(row.confusion_matrix, one_field);
  line.last(row.time);
  line.last_list(row.class_counts, one_field);
  line.last_list(row.type_counts, one_field);
}

template <class Line>
void fields(Line& line, Is<LossScaleRow> auto& row) {
  line(row.step, row.scale, row.skipped);
  line.last(row.time);
}

template <class Line>
void fields(Line& line, Is<EfficiencyRow> auto& row) {
  line(row.step, row.noise_scale, row.efficiency, row.goodput);
}

template <class Line>
void fields(Line& line, Is<DataRow> auto& row) {
  line(row.step, row.epoch, row.file_bytes);
  line.list(row.bytes_read, one_field);
}

template <class Line>
void fields(Line& line, Is<std::vector<TimerRow>> auto& rows) {
  line.list(rows, [](auto& l, auto& row) {
    l(row.name, row.calls, row.seconds_min, row.seconds_avg, row.seconds_max, row.device_seconds_min,
      row.device_seconds_avg, row.device_seconds_max);
  });
}

template <class Line>
void fields(Line& line, Is<std::vector<RankRow>> auto& rows) {
  line.list(rows, [](auto& l, auto& row) {
    l(row.host, row.device, row.threads, row.peak_memory, row.utilisation, row.power, row.start_memory,
      row.planned_memory, row.computing, row.communicating, row.waiting, row.gpu_utilisation, row.gpu_memory,
      row.energy);
  });
}

template <class Line>
void fields(Line& line, Is<std::vector<MemoryRow>> auto& rows) {
  line.list(rows, [](auto& l, auto& row) {
    l(row.purpose);
    l.list(row.bytes, one_field);
  });
}

template <class Line>
void fields(Line& line, Is<Profile> auto& profile) {
  line(profile.first_step, profile.steps, profile.ranks, profile.on_gpu, profile.seconds, profile.cost,
       profile.peak_gflops);
  line.list(profile.rows, [](auto& l, auto& row) {
    l(row.section, row.kind, row.name, row.calls, row.seconds_min, row.seconds_avg, row.seconds_max, row.flops,
      row.bytes);
  });
}

template <class Line>
void fields(Line& line, Is<RankSample> auto& sample) {
  line(sample.seconds);
  line.list(sample.utilisation, one_field);
  line.list(sample.power, one_field);
  line.last_list(sample.memory, one_field);
}

template <class Row>
std::string encoded(const char* kind, const Row& row) {
  LineWriter line(kind);
  fields(line, row);
  return line.take();
}

template <class Row>
Row decoded(LineReader& line) {
  Row row;
  fields(line, row);
  return row;
}

template <class T>
T field(LineReader& line) {
  T value{};
  line(value);
  return value;
}

template <class... Fields>
std::string joined(const char* kind, const Fields&... values) {
  LineWriter line(kind);
  line(values...);
  return line.take();
}

/// A matrix of (classes, classes) and counts of (3, classes)?
bool has_shapes(const EvaluationRow& row) {
  return row.classes >= 0 && row.classes <= 1 << 20 &&
         static_cast<std::int64_t>(row.confusion_matrix.size()) == row.classes * row.classes &&
         row.class_counts.size() % 3 == 0 && row.type_counts.size() % 3 == 0;
}

template <class Row>
void forget_after(std::vector<Row>& rows, std::int64_t step) {
  std::erase_if(rows, [step](const Row& row) { return row.step > step; });
}

/// Keeps the first start's time; everything else comes from the latest start.
void set_info(MetricsTables& tables, RunInfo info) {
  if (!tables.info.started.empty()) {
    tables.restarts.push_back(info.started);
    info.started = tables.info.started;
  }
  tables.info = std::move(info);
  tables.status = status_names[0];
}

/// A run that resumes from an earlier step repeats evaluations; the repeated one replaces the first.
void add_evaluation(MetricsTables& tables, LineReader& line) {
  const auto split = field<std::string>(line);
  EvaluationRow row = decoded<EvaluationRow>(line);
  if (!has_shapes(row)) throw Nonsense{};
  std::vector<EvaluationRow>& rows = tables.evaluations[split];
  const auto again = [&](const EvaluationRow& before) { return before.step == row.step; };
  tables.replaced += static_cast<std::int64_t>(std::erase_if(rows, again));
  rows.push_back(std::move(row));
}

void apply_fields(MetricsTables& tables, std::string_view kind, LineReader& line) {
  if (kind == "step") {
    StepRow& row = tables.steps.emplace_back(decoded<StepRow>(line));
    row.computed_tokens = std::max(row.computed_tokens, row.tokens);  // older versions lack it
  } else if (kind == "evaluation") {
    add_evaluation(tables, line);
  } else if (kind == "efficiency") {
    tables.efficiency.push_back(decoded<EfficiencyRow>(line));
  } else if (kind == "loss_scale") {
    tables.loss_scale.push_back(decoded<LossScaleRow>(line));
  } else if (kind == "data") {
    tables.data.push_back(decoded<DataRow>(line));
  } else if (kind == "rank_sample") {
    tables.rank_samples.push_back(decoded<RankSample>(line));
  } else if (kind == "timers") {
    tables.timers = decoded<std::vector<TimerRow>>(line);
  } else if (kind == "ranks") {
    tables.ranks = decoded<std::vector<RankRow>>(line);
  } else if (kind == "memory") {
    tables.memory = decoded<std::vector<MemoryRow>>(line);
  } else if (kind == "profile") {
    tables.profile = decoded<Profile>(line);
  } else if (kind == "status") {
    tables.status = field<std::string>(line);
  } else if (kind == "total") {
    const auto name = field<std::string>(line);
    tables.totals[name] = field<double>(line);
  } else if (kind == "info") {
    set_info(tables, decoded<RunInfo>(line));
  } else if (kind == "rewind") {
    const auto step = field<std::int64_t>(line);
    forget_after(tables.steps, step);
    forget_after(tables.efficiency, step);
    forget_after(tables.loss_scale, step);
    forget_after(tables.data, step);
    for (auto& [split, rows] : tables.evaluations) forget_after(rows, step);
  } else {
    throw Nonsense{};
  }
}

}  // namespace

std::string encode(const RunInfo& info) {
  return encoded("info", info);
}

std::string encode(const StepRow& row) {
  return encoded("step", row);
}

std::string encode(const std::string& split, const EvaluationRow& row) {
  core::require(has_shapes(row),
                "confusion matrix that is not (classes, classes), or counts that are not (3, classes)");
  LineWriter line("evaluation");
  line(split);
  fields(line, row);
  return line.take();
}

std::string encode(const LossScaleRow& row) {
  return encoded("loss_scale", row);
}

std::string encode(const EfficiencyRow& row) {
  return encoded("efficiency", row);
}

std::string encode(const DataRow& row) {
  return encoded("data", row);
}

std::string encode(const std::vector<TimerRow>& rows) {
  return encoded("timers", rows);
}

std::string encode(const std::vector<RankRow>& rows) {
  return encoded("ranks", rows);
}

std::string encode(const std::vector<MemoryRow>& rows) {
  return encoded("memory", rows);
}

std::string encode(const Profile& profile) {
  return encoded("profile", profile);
}

std::string encode_rank_sample(const RankSample& sample) {
  core::require(sample.utilisation.size() == sample.power.size() && sample.power.size() == sample.memory.size(),
                "utilisation, power and memory of different numbers of ranks");
  return encoded("rank_sample", sample);
}

std::string encode_status(RunStatus status) {
  return joined("status", std::string(status_names[static_cast<std::size_t>(status)]));
}

std::string encode_total(const std::string& name, double value) {
  return joined("total", name, value);
}

std::string encode_rewind(std::int64_t step) {
  return joined("rewind", step);
}

bool MetricsTables::apply(std::string_view line) {
  try {
    LineReader reader(line);
    const auto kind = field<std::string>(reader);
    apply_fields(*this, kind, reader);
    return reader.done();
  } catch (const Nonsense&) {
    return false;
  }
}

}  // namespace bert_hpc::io::detail
