#include "metrics_events.hpp"

namespace bert_hpc::io::detail {

namespace {

std::vector<Scalar> scalars_of(const StepRow& row) {
  return {{"train/loss", row.loss},
          {"train/learning_rate", row.learning_rate},
          {"train/gradient_norm", row.gradient_norm},
          {"train/samples_per_second", static_cast<double>(row.samples) / row.seconds},
          {"train/tokens_per_second", static_cast<double>(row.tokens) / row.seconds}};
}

std::vector<Scalar> scalars_of(const LossScaleRow& row) {
  return {{"train/loss_scale", row.scale}};
}

std::vector<Scalar> scalars_of(const std::string& split, const EvaluationRow& row) {
  std::vector<Scalar> scalars = {{split + "/loss", row.loss}};
  for (const auto& [name, value] : row.metrics) scalars.push_back({split + '/' + name, value});
  return scalars;
}

RowCounts counts_of(const MetricsTables& tables) {
  RowCounts counts{tables.steps.size(), tables.loss_scale.size(), {}};
  for (const auto& [split, rows] : tables.evaluations) counts.evaluations[split] = rows.size();
  return counts;
}

}  // namespace

std::string encode_events(const MetricsTables& tables, const RowCounts& after, double now) {
  std::string records;
  const auto add = [&](const auto& rows, std::size_t first, const auto& scalars) {
    for (std::size_t i = first; i < rows.size(); ++i) {
      records += encode_event(rows[i].time > 0 ? rows[i].time : now, rows[i].step, scalars(rows[i]));
    }
  };
  const auto plain = [](const auto& row) { return scalars_of(row); };
  add(tables.steps, after.steps, plain);
  add(tables.loss_scale, after.loss_scale, plain);
  for (const auto& [split, rows] : tables.evaluations) {
    const auto known = after.evaluations.find(split);
    add(rows, known == after.evaluations.end() ? 0 : known->second,
        [&name = split](const EvaluationRow& row) { return scalars_of(name, row); });
  }
  return records;
}

void MetricsEvents::follow(const MetricsTables& tables, double now) {
  if (!file_ || tables.replaced != replaced_) {
    written_ = {};
    file_.emplace(directory_, now);
    replaced_ = tables.replaced;
  }
  file_->append(encode_events(tables, written_, now));
  written_ = counts_of(tables);
}

void MetricsEvents::sync() {
  if (file_) file_->sync();
}

}  // namespace bert_hpc::io::detail
