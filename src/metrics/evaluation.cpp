#include "bert_hpc/metrics/metric.hpp"

#include <algorithm>

namespace bert_hpc::metrics {
namespace {

/// (3, classes)
std::vector<std::int64_t> listed(const ClassCounts& counts) {
  std::vector<std::int64_t> all;
  for (const auto& column : {counts.actual, counts.predicted, counts.hits}) {
    for (const double count : column) all.push_back(static_cast<std::int64_t>(count));
  }
  return all;
}

}  // namespace

Evaluation::Evaluation(std::vector<const Family*> families, const EvaluatedSet& set)
    : families_(std::move(families)), set_(set), begins_{2} {
  for (const Family* family : families_) {
    begins_.push_back(begins_.back() + static_cast<std::size_t>(family->size(set_)));
  }
  accumulators_.resize(begins_.back(), 0.0);
}

bool Evaluation::reads_predicted() const {
  return std::any_of(families_.begin(), families_.end(), [](const Family* family) { return family->reads_predicted; });
}

bool Evaluation::reads_confidences() const {
  return std::any_of(families_.begin(), families_.end(),
                     [](const Family* family) { return family->reads_confidences; });
}

bool Evaluation::reads_losses() const {
  return std::any_of(families_.begin(), families_.end(), [](const Family* family) { return family->reads_losses; });
}

double Evaluation::loss() const {
  for (std::size_t f = 0; f < families_.size(); ++f) {
    if (families_[f]->loss != nullptr) return families_[f]->loss(sums_of(f));
  }
  return loss_sum().mean();
}

bool Evaluation::reads_outputs() const {
  return std::any_of(families_.begin(), families_.end(),
                     [this](const Family* family) { return family->reads_outputs && family->size(set_) > 0; });
}

void Evaluation::add(double loss, const Results& results) {
  accumulators_[0] += loss;
  accumulators_[1] += static_cast<double>(core::target_count(results.batch));
  for (std::size_t f = 0; f < families_.size(); ++f) {
    if (families_[f]->add == nullptr) continue;
    families_[f]->add(set_, results, Sums(accumulators_).subspan(begins_[f], begins_[f + 1] - begins_[f]));
  }
}

void Evaluation::set_loss(const LossSum& loss) {
  accumulators_[0] = loss.sum;
  accumulators_[1] = loss.targets;
}

Sums Evaluation::sums_of(const Family& family) {
  const auto found = std::find(families_.begin(), families_.end(), &family);
  const auto f = static_cast<std::size_t>(found - families_.begin());
  return found == families_.end() ? Sums() : Sums(accumulators_).subspan(begins_[f], begins_[f + 1] - begins_[f]);
}

ConstSums Evaluation::sums_of(std::size_t family) const {
  return ConstSums(accumulators_).subspan(begins_[family], begins_[family + 1] - begins_[family]);
}

std::vector<std::pair<std::string, double>> Evaluation::values() const {
  std::vector<std::pair<std::string, double>> all;
  for (std::size_t f = 0; f < families_.size(); ++f) {
    const std::vector<double> values = families_[f]->values(set_, loss_sum(), sums_of(f));
    for (std::size_t m = 0; m < values.size(); ++m) {
      const Metric& metric = families_[f]->metrics[m];
      if (metric.outputs == 0 || metric.outputs == set_.outputs) all.emplace_back(metric.name, values[m]);
    }
    if (families_[f]->column_values == nullptr) continue;
    const std::vector<double> own = families_[f]->column_values(set_, sums_of(f));
    const std::size_t metrics = families_[f]->metrics.size();
    for (std::size_t i = 0; i < own.size(); ++i) {
      all.emplace_back(families_[f]->metrics[i % metrics].name + '_' + set_.columns[i / metrics], own[i]);
    }
  }
  return all;
}

std::optional<OneAnswer> Evaluation::one_answer() const {
  for (std::size_t f = 0; f < families_.size(); ++f) {
    if (families_[f]->one_answer != nullptr) return families_[f]->one_answer(set_, sums_of(f));
  }
  return std::nullopt;
}

std::vector<std::int64_t> Evaluation::class_counts() const {
  if (reported_classes(families_, set_) == 0) return {};
  for (std::size_t f = 0; f < families_.size(); ++f) {
    if (families_[f]->class_counts != nullptr) return listed(families_[f]->class_counts(set_, sums_of(f)));
  }
  return {};
}

std::vector<std::int64_t> Evaluation::type_counts() const {
  for (std::size_t f = 0; f < families_.size(); ++f) {
    if (families_[f]->type_counts != nullptr) return listed(families_[f]->type_counts(set_, sums_of(f)));
  }
  return {};
}

std::vector<std::int64_t> Evaluation::confusion_matrix() const {
  for (std::size_t f = 0; f < families_.size(); ++f) {
    if (families_[f]->confusion_matrix != nullptr) return families_[f]->confusion_matrix(set_, sums_of(f));
  }
  return {};
}

std::int64_t Evaluation::matrix_classes() const {
  return metrics::matrix_classes(families_, set_);
}

std::int64_t matrix_classes(const std::vector<const Family*>& families, const EvaluatedSet& set) {
  for (const Family* family : families) {
    if (family->matrix_classes != nullptr) return family->matrix_classes(set);
  }
  return 0;
}

std::int64_t reported_classes(const std::vector<const Family*>& families, const EvaluatedSet& set) {
  const bool counts = std::any_of(families.begin(), families.end(),
                                  [](const Family* family) { return family->class_counts != nullptr; });
  return counts && set.outputs <= max_reported_classes ? set.outputs : 0;
}

std::int64_t bytes_of(const std::vector<const Family*>& families, const EvaluatedSet& set) {
  std::int64_t bytes = 0;
  for (const Family* family : families) {
    if (family->bytes != nullptr) bytes += family->bytes(set);
  }
  return bytes;
}

}  // namespace bert_hpc::metrics
