#include "bert_hpc/io/predictions_csv.hpp"

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::io {

PredictionsCsv::PredictionsCsv(const std::string& path, const std::vector<std::string>& label_names,
                               std::int64_t classes)
    : file_(path), label_names_(label_names), classes_(classes) {
  for (const char* name : {"row", "label", "prediction"}) file_.text(name);
  if (classes_ > 0) file_.text("probability");
  if (classes_ <= most_class_columns) {
    for (std::int64_t id = 0; id < classes_; ++id) file_.text("probability_" + class_name(id));
  }
  file_.end_row();
}

std::string PredictionsCsv::class_name(std::int64_t id) const {
  const bool named = id >= 0 && id < static_cast<std::int64_t>(label_names_.size());
  return named ? label_names_[static_cast<std::size_t>(id)] : std::to_string(id);
}

void PredictionsCsv::append(std::span<const std::int64_t> source_index, std::span<const std::int32_t> label,
                            std::span<const std::int32_t> prediction, std::span<const float> probabilities) {
  const std::size_t rows = source_index.size(), classes = static_cast<std::size_t>(classes_);
  core::require(classes_ > 0 && prediction.size() == rows && (label.empty() || label.size() == rows) &&
                    probabilities.size() == rows * classes,
                "predictions of classes with arrays of different lengths");
  for (std::size_t i = 0; i < rows; ++i) {
    file_.number(source_index[i]);
    file_.text(label.empty() || label[i] < 0 ? std::string() : class_name(label[i]));
    file_.text(class_name(prediction[i]));
    const std::span<const float> own = probabilities.subspan(i * classes, classes);
    file_.number(own[static_cast<std::size_t>(prediction[i])]);
    if (classes_ <= most_class_columns) {
      for (const float probability : own) file_.number(probability);
    }
    file_.end_row();
  }
}

void PredictionsCsv::append(std::span<const std::int64_t> source_index, std::span<const float> label,
                            std::span<const float> prediction) {
  const std::size_t rows = source_index.size();
  core::require(classes_ == 0 && prediction.size() == rows && (label.empty() || label.size() == rows),
                "predictions of values with arrays of different lengths");
  for (std::size_t i = 0; i < rows; ++i) {
    file_.number(source_index[i]);
    if (label.empty()) {
      file_.empty();
    } else {
      file_.number(label[i]);
    }
    file_.number(prediction[i]);
    file_.end_row();
  }
}

}  // namespace bert_hpc::io
