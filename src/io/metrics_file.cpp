// Builds metrics.h5 from the tables. postprocess/README.md documents names, units and shapes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>

#include "bert_hpc/io/hdf5/hdf5.hpp"
#include "bert_hpc/io/provenance.hpp"
#include "bert_hpc/metrics/class_counts.hpp"
#include "bert_hpc/metrics/entities.hpp"
#include "bert_hpc/metrics/registry.hpp"
#include "metrics_tables.hpp"

namespace bert_hpc::io::detail {

namespace {

constexpr const char* schema = "bert_hpc metrics 1";
constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

template <class T, class Row>
void write_column(Hdf5File& file, const std::string& name, const std::vector<Row>& rows, T Row::*member,
                  const char* unit) {
  std::vector<T> column;
  column.reserve(rows.size());
  for (const Row& row : rows) column.push_back(row.*member);
  if constexpr (std::is_same_v<T, std::string>) {
    file.write_text(name, column);
  } else {
    file.write(name, column);
  }
  file.write_attribute(name, "unit", unit);
}

void write_steps(Hdf5File& file, const std::vector<StepRow>& rows) {
  write_column(file, "steps/step", rows, &StepRow::step, "updates");
  write_column(file, "steps/epoch", rows, &StepRow::epoch, "epochs");
  write_column(file, "steps/loss", rows, &StepRow::loss, "1");
  write_column(file, "steps/learning_rate", rows, &StepRow::learning_rate, "1");
  write_column(file, "steps/gradient_norm", rows, &StepRow::gradient_norm, "1");
  write_column(file, "steps/samples", rows, &StepRow::samples, "samples");
  write_column(file, "steps/tokens", rows, &StepRow::tokens, "tokens");
  write_column(file, "steps/computed_tokens", rows, &StepRow::computed_tokens, "tokens");
  write_column(file, "steps/seconds", rows, &StepRow::seconds, "s");
  write_column(file, "steps/skipped", rows, &StepRow::skipped, "updates");
}

void write_confusion(Hdf5File& file, const std::string& group, const std::vector<EvaluationRow>& rows) {
  std::int64_t classes = 0;
  for (const EvaluationRow& row : rows) classes = std::max(classes, row.classes);
  if (classes == 0) return;
  std::vector<std::int64_t> all;
  for (const EvaluationRow& row : rows) {
    // An evaluation without a matrix, or with another number of classes, is written as zeros.
    if (row.classes == classes) {
      all.insert(all.end(), row.confusion_matrix.begin(), row.confusion_matrix.end());
    } else {
      all.insert(all.end(), static_cast<std::size_t>(classes * classes), 0);
    }
  }
  const std::string name = group + "/confusion_matrix";
  file.write(name, all, {static_cast<std::int64_t>(rows.size()), classes, classes});
  file.write_attribute(name, "axes", "evaluations, actual, predicted");
}

struct PerClass {
  std::vector<double> precision, recall, f1;  ///< (evaluations, classes)
  std::vector<std::int64_t> support;
};

void append(const std::vector<std::int64_t>& class_counts, std::size_t classes, PerClass& all) {
  const auto add = [](std::vector<double>& column, const std::vector<double>& values) {
    column.insert(column.end(), values.begin(), values.end());
  };
  const std::vector<double> counts(class_counts.begin(), class_counts.end());
  const auto row = [&](std::size_t i) { return std::span(counts).subspan(i * classes, classes); };
  const metrics::ClassCounts of_classes = {row(0), row(1), row(2)};
  add(all.precision, metrics::class_precision(of_classes));
  add(all.recall, metrics::class_recall(of_classes));
  add(all.f1, metrics::class_f1(of_classes));
  all.support.insert(all.support.end(), class_counts.begin(), class_counts.begin() + std::ssize(row(0)));
}

/// GROUP/NAME/precision and so on, of the counts that `member` holds.
void write_counts(Hdf5File& file, const std::string& group, const std::vector<EvaluationRow>& rows,
                  std::vector<std::int64_t> EvaluationRow::*member, const std::string& axis) {
  std::size_t classes = 0;
  for (const EvaluationRow& row : rows) classes = std::max(classes, (row.*member).size() / 3);
  if (classes == 0) return;
  PerClass all;
  for (const EvaluationRow& row : rows) {
    if ((row.*member).size() == 3 * classes) {
      append(row.*member, classes, all);
      continue;
    }
    // An evaluation without counts, or with another number of classes.
    for (auto* column : {&all.precision, &all.recall, &all.f1}) column->insert(column->end(), classes, unknown);
    all.support.insert(all.support.end(), classes, 0);
  }
  const auto write = [&](const char* name, const auto& values, const char* unit) {
    const std::string dataset = group + '/' + name;
    file.write(dataset, values, {std::ssize(rows), static_cast<std::int64_t>(classes)});
    file.write_attribute(dataset, "unit", unit);
    file.write_attribute(dataset, "axes", "evaluations, " + axis);
  };
  write("precision", all.precision, "1");
  write("recall", all.recall, "1");
  write("f1", all.f1, "1");
  write("support", all.support, "samples");
}

/// What a reader needs to know of a metric, also of one of a label column ("rmse_NAME"); of one of another version its
/// name alone. `names`: all of its evaluation.
void describe_metric(Hdf5File& file, const std::string& dataset, const std::string& name,
                     const std::set<std::string>& names) {
  const metrics::Metric* metric = metrics::find_metric(name, names);
  if (metric == nullptr) metric = metrics::find_metric(name.substr(0, name.find('_')));
  const bool has_label = metric != nullptr && !metric->label.empty();
  file.write_attribute(dataset, "label", has_label ? metric->label : name);
  if (metric != nullptr && metric->is_goal) {
    file.write_attribute(dataset, "larger_is_better", std::int64_t{metric->larger_is_better});
  }
}

void write_evaluations(Hdf5File& file, const std::string& split, const std::vector<EvaluationRow>& rows,
                       const RunInfo& info) {
  const std::string group = "evaluations/" + split;
  write_column(file, group + "/step", rows, &EvaluationRow::step, "updates");
  write_column(file, group + "/loss", rows, &EvaluationRow::loss, "1");
  describe_metric(file, group + "/loss", "loss", {});
  if (info.standardizes()) file.write_attribute(group + "/loss", "label", standardized_loss);
  std::set<std::string> names;
  for (const EvaluationRow& row : rows) {
    for (const auto& [name, value] : row.metrics) names.insert(name);
  }
  for (const std::string& name : names) {
    std::vector<double> column(rows.size(), unknown);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (const auto& [own, value] : rows[i].metrics) {
        if (own == name) column[i] = value;
      }
    }
    file.write(group + "/" + name, column);
    describe_metric(file, group + "/" + name, name, names);
  }
  write_confusion(file, group, rows);
  write_counts(file, group + "/per_class", rows, &EvaluationRow::class_counts, "classes");
  write_counts(file, group + "/per_type", rows, &EvaluationRow::type_counts, "entity types");
  if (file.exists(group + "/per_type")) {
    file.write_attribute(group + "/per_type", "entity_types", metrics::entity_types(info.label_names));
  }
}

void write_data(Hdf5File& file, const std::vector<DataRow>& rows) {
  std::size_t nodes = 0;
  for (const DataRow& row : rows) nodes = std::max(nodes, row.bytes_read.size());
  std::vector<std::int64_t> bytes_read;  // 0 for nodes that this start of the run did not have
  for (const DataRow& row : rows) {
    bytes_read.insert(bytes_read.end(), row.bytes_read.begin(), row.bytes_read.end());
    bytes_read.insert(bytes_read.end(), nodes - row.bytes_read.size(), 0);
  }
  write_column(file, "data/step", rows, &DataRow::step, "updates");
  write_column(file, "data/epoch", rows, &DataRow::epoch, "epochs");
  write_column(file, "data/file_bytes", rows, &DataRow::file_bytes, "bytes");
  file.write("data/bytes_read", bytes_read, {std::ssize(rows), static_cast<std::int64_t>(nodes)});
  file.write_attribute("data/bytes_read", "unit", "bytes");
  file.write_attribute("data/bytes_read", "axes", "epochs, nodes");
}

void write_memory(Hdf5File& file, const std::vector<MemoryRow>& rows) {
  std::size_t ranks = 0;
  for (const MemoryRow& row : rows) ranks = std::max(ranks, row.bytes.size());
  std::vector<std::int64_t> bytes;
  for (const MemoryRow& row : rows) {
    bytes.insert(bytes.end(), row.bytes.begin(), row.bytes.end());
    bytes.insert(bytes.end(), ranks - row.bytes.size(), 0);
  }
  write_column(file, "ranks/memory/purpose", rows, &MemoryRow::purpose, "");
  file.write("ranks/memory/bytes", bytes, {std::ssize(rows), static_cast<std::int64_t>(ranks)});
  file.write_attribute("ranks/memory/bytes", "unit", "bytes");
  file.write_attribute("ranks/memory/bytes", "axes", "purposes, ranks");
}

void write_ranks(Hdf5File& file, const MetricsTables& tables) {
  write_column(file, "ranks/host", tables.ranks, &RankRow::host, "");
  write_column(file, "ranks/device", tables.ranks, &RankRow::device, "");
  write_column(file, "ranks/threads", tables.ranks, &RankRow::threads, "threads");
  write_column(file, "ranks/peak_memory", tables.ranks, &RankRow::peak_memory, "bytes");
  write_column(file, "ranks/start_memory", tables.ranks, &RankRow::start_memory, "bytes");
  write_column(file, "ranks/planned_memory", tables.ranks, &RankRow::planned_memory, "bytes");
  write_column(file, "ranks/utilisation", tables.ranks, &RankRow::utilisation, "0 to 1");
  write_column(file, "ranks/computing", tables.ranks, &RankRow::computing, "s");
  write_column(file, "ranks/communicating", tables.ranks, &RankRow::communicating, "s");
  write_column(file, "ranks/waiting", tables.ranks, &RankRow::waiting, "s");
  write_column(file, "ranks/power", tables.ranks, &RankRow::power, "W");
  write_column(file, "ranks/energy", tables.ranks, &RankRow::energy, "J");
  write_column(file, "ranks/gpu_utilisation", tables.ranks, &RankRow::gpu_utilisation, "0 to 1");
  write_column(file, "ranks/gpu_memory", tables.ranks, &RankRow::gpu_memory, "bytes");
  if (!tables.memory.empty()) write_memory(file, tables.memory);
  if (tables.rank_samples.empty()) return;
  std::size_t ranks = 0;
  for (const RankSample& sample : tables.rank_samples) ranks = std::max(ranks, sample.utilisation.size());
  write_column(file, "ranks/samples/seconds", tables.rank_samples, &RankSample::seconds, "s");
  const auto write = [&](const std::string& name, std::vector<double> RankSample::*member, const char* unit) {
    std::vector<double> values;
    for (const RankSample& sample : tables.rank_samples) {
      const std::vector<double>& own = sample.*member;
      values.insert(values.end(), own.begin(), own.end());
      values.insert(values.end(), ranks - own.size(), unknown);
    }
    file.write(name, values, {std::ssize(tables.rank_samples), static_cast<std::int64_t>(ranks)});
    file.write_attribute(name, "unit", unit);
  };
  write("ranks/samples/utilisation", &RankSample::utilisation, "0 to 1");
  write("ranks/samples/power", &RankSample::power, "W");
  write("ranks/samples/memory", &RankSample::memory, "bytes");
}

void write_profile(Hdf5File& file, const Profile& profile) {
  write_column(file, "profile/section", profile.rows, &ProfileRow::section, "");
  write_column(file, "profile/kind", profile.rows, &ProfileRow::kind, "");
  write_column(file, "profile/name", profile.rows, &ProfileRow::name, "");
  write_column(file, "profile/calls", profile.rows, &ProfileRow::calls, "calls");
  write_column(file, "profile/seconds_min", profile.rows, &ProfileRow::seconds_min, "s");
  write_column(file, "profile/seconds_avg", profile.rows, &ProfileRow::seconds_avg, "s");
  write_column(file, "profile/seconds_max", profile.rows, &ProfileRow::seconds_max, "s");
  write_column(file, "profile/flops", profile.rows, &ProfileRow::flops, "operations");
  write_column(file, "profile/bytes", profile.rows, &ProfileRow::bytes, "bytes");
  file.write_attribute("profile", "first_step", profile.first_step);
  file.write_attribute("profile", "steps", profile.steps);
  file.write_attribute("profile", "ranks", profile.ranks);
  file.write_attribute("profile", "device", std::string(profile.on_gpu != 0 ? "GPU" : "CPU"));
  file.write_attribute("profile", "seconds", profile.seconds);
  file.write_attribute("profile", "cost_seconds", profile.cost);
  if (profile.peak_gflops > 0) file.write_attribute("profile", "peak_gflops", profile.peak_gflops);
}

void write_root(Hdf5File& file, const MetricsTables& tables) {
  const RunInfo& info = tables.info;
  file.write_attribute("/", "schema", schema);
  file.write_attribute("/", "version", info.version);
  file.write_attribute("/", "source_revision", info.source_revision);
  file.write_attribute("/", "resolved_input", info.resolved_input);
  file.write_attribute("/", "started", info.started);
  file.write_attribute("/", "restarts", tables.restarts);
  file.write_attribute("/", "updated", utc_now());
  file.write_attribute("/", "status", tables.status);
  file.write_attribute("/", "mode", info.mode);
  file.write_attribute("/", "task", info.task);
  file.write_attribute("/", "label_names", info.label_names);
  if (info.data > 0) {  // journals of older versions lack these
    file.write_attribute("/", "parallel_data", info.data);
    file.write_attribute("/", "parallel_pipeline", info.pipeline);
    file.write_attribute("/", "parallel_tensor", info.tensor);
  }
  const auto write_columns = [&file](const char* name, const std::vector<double>& values) {  // one, or a list
    if (values.size() == 1) file.write_attribute("/", name, values.front());
    if (values.size() > 1) file.write_attribute("/", name, values);
  };
  write_columns("label_mean", info.label_means);
  write_columns("label_deviation", info.label_deviations);
  if (info.parameters > 0) file.write_attribute("/", "parameters", info.parameters);
  if (info.trained_parameters > 0) file.write_attribute("/", "trained_parameters", info.trained_parameters);
  std::int64_t samples = 0, tokens = 0, computed_tokens = 0;
  double seconds = 0;
  for (const StepRow& row : tables.steps) {
    samples += row.samples;
    tokens += row.tokens;
    computed_tokens += row.computed_tokens;
    seconds += row.seconds;
  }
  file.write_attribute("/", "total_steps", tables.steps.empty() ? std::int64_t{0} : tables.steps.back().step);
  file.write_attribute("/", "total_samples", samples);
  file.write_attribute("/", "total_tokens", tokens);
  file.write_attribute("/", "total_computed_tokens", computed_tokens);
  file.write_attribute("/", "total_seconds", seconds);
  for (const auto& [name, value] : tables.totals) file.write_attribute("/", "total_" + name, value);
  file.create_group("provenance");
  for (const auto& [name, value] : info.provenance) file.write_attribute("provenance", name, value);
}

}  // namespace

std::vector<std::byte> MetricsTables::to_hdf5(const std::string& path) const {
  Hdf5File file = Hdf5File::create_in_memory(path, core::ExitCode::files);
  write_root(file, *this);
  write_steps(file, steps);
  file.create_group("evaluations");
  for (const auto& [split, rows] : evaluations) {
    if (!rows.empty()) write_evaluations(file, split, rows, info);
  }
  write_column(file, "timers/name", timers, &TimerRow::name, "");
  write_column(file, "timers/calls", timers, &TimerRow::calls, "calls");
  write_column(file, "timers/seconds_min", timers, &TimerRow::seconds_min, "s");
  write_column(file, "timers/seconds_avg", timers, &TimerRow::seconds_avg, "s");
  write_column(file, "timers/seconds_max", timers, &TimerRow::seconds_max, "s");
  if (std::any_of(timers.begin(), timers.end(), [](const TimerRow& row) { return row.has_device(); })) {
    write_column(file, "timers/device_seconds_min", timers, &TimerRow::device_seconds_min, "s");
    write_column(file, "timers/device_seconds_avg", timers, &TimerRow::device_seconds_avg, "s");
    write_column(file, "timers/device_seconds_max", timers, &TimerRow::device_seconds_max, "s");
  }
  write_ranks(file, *this);
  if (!data.empty()) write_data(file, data);
  if (profile.steps > 0) write_profile(file, profile);
  if (!efficiency.empty()) {
    write_column(file, "efficiency/step", efficiency, &EfficiencyRow::step, "updates");
    write_column(file, "efficiency/noise_scale", efficiency, &EfficiencyRow::noise_scale, "samples");
    write_column(file, "efficiency/efficiency", efficiency, &EfficiencyRow::efficiency, "0 to 1");
    write_column(file, "efficiency/goodput", efficiency, &EfficiencyRow::goodput, "samples/s");
  }
  if (!loss_scale.empty()) {
    write_column(file, "loss_scale/step", loss_scale, &LossScaleRow::step, "updates");
    write_column(file, "loss_scale/scale", loss_scale, &LossScaleRow::scale, "1");
    write_column(file, "loss_scale/skipped", loss_scale, &LossScaleRow::skipped, "updates");
  }
  return file.close_to_bytes();
}

}  // namespace bert_hpc::io::detail
