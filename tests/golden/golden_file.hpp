// Reads the numbers that generate.py writes (golden/bert/TASK/golden.safetensors): unpadded batches, and what float64
// arithmetic in PyTorch makes of them. No Python is needed to run the tests.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/model/safetensors.hpp"
#include "support/tests_directory.hpp"

namespace bert_hpc::test {

/// A batch of the file: real tokens only. The targets of the other tasks are empty.
struct GoldenBatch {
  std::vector<std::int32_t> offsets;         ///< (sequences + 1)
  std::vector<std::int32_t> input_ids;       ///< (tokens)
  std::vector<std::int32_t> token_type_ids;  ///< (tokens)
  std::vector<std::int32_t> labels;          ///< (sequences), classification, pairs beside masked tokens
  std::vector<float> values;  ///< (sequences), regression, ranking; (sequences, labels) of 0 and 1, multi-label
  /// (masked), masked language modelling and token classification: token rows with a label, ascending
  std::vector<std::int32_t> masked_rows;
  std::vector<std::int32_t> masked_labels;  ///< (masked)
  std::vector<std::int32_t> spans;          ///< (sequences, 2), question answering: first and last token
  std::vector<std::int32_t> lists;          ///< (queries, 2), listwise ranking: candidates [begin, end) of each query

  std::int64_t sequences() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  std::int64_t tokens() const { return offsets.back(); }
};

class GoldenFile {
 public:
  static constexpr int batches = 5;       ///< step k of AdamW trains on batch k % batches
  static constexpr int adamw_steps = 20;  ///< learning rate 1e-3, betas 0.9 and 0.999, epsilon 1e-8, decay 0.01, clip 1

  /// `task` is one of generate.py's TASKS.
  explicit GoldenFile(const std::string& task) : folder_(folder(task)), file_(folder_ / "golden.safetensors") {}

  /// The folder with config.json and model.safetensors of the initial model.
  const std::filesystem::path& model_folder() const { return folder_; }

  /// All elements of a tensor: "logits", "row_loss" (question answering: of sequences, listwise ranking: of queries),
  /// "loss" (of batch 0), "gradient.NAME" (sum over the batch / its count), "adamw.loss", "adamw.norm" (before
  /// clipping), "adamw.value.NAME".
  std::vector<double> numbers(const std::string& name) const {
    const model::StoredTensor& tensor = find(name);
    std::vector<double> values(static_cast<std::size_t>(tensor.elements));
    file_.read(tensor, std::span<double>(values));
    return values;
  }
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }

  GoldenBatch batch(int index) const {
    const std::string prefix = "batch" + std::to_string(index) + ".";
    GoldenBatch batch{.offsets = integers(prefix + "offsets"),
                      .input_ids = integers(prefix + "input_ids"),
                      .token_type_ids = integers(prefix + "token_type_ids"),
                      .labels = integers(prefix + "labels"),
                      .values = {},
                      .masked_rows = integers(prefix + "masked_rows"),
                      .masked_labels = integers(prefix + "masked_labels"),
                      .spans = integers(prefix + "spans"),
                      .lists = integers(prefix + "lists")};
    if (has(prefix + "values")) {
      const std::vector<double> values = numbers(prefix + "values");
      batch.values.assign(values.begin(), values.end());
    }
    return batch;
  }

 private:
  static std::filesystem::path folder(const std::string& task) {
    return test::tests_directory() / "golden" / "bert" / task;
  }
  const model::StoredTensor& find(const std::string& name) const {
    const model::StoredTensor* tensor = file_.find(name);
    core::require(tensor != nullptr, ("the golden file lacks " + name).c_str());
    return *tensor;
  }
  std::vector<std::int32_t> integers(const std::string& name) const {
    if (!has(name)) return {};
    std::vector<std::int64_t> wide(static_cast<std::size_t>(find(name).elements));
    file_.read(find(name), std::span<std::int64_t>(wide));
    return {wide.begin(), wide.end()};
  }

  std::filesystem::path folder_;
  model::SafetensorsFile file_;
};

/// √Σ x².
inline double norm(std::span<const double> x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}

/// ‖ours − golden‖ / (‖golden‖ + floor). The floor, a fraction of the largest gradient's norm, is for tensors whose
/// true value is zero: a key's bias shifts all scores of a row equally, so both gradients are rounding noise.
inline double relative_error(std::span<const float> ours, std::span<const double> golden, double floor = 0) {
  core::require(ours.size() == golden.size(), "golden: sizes differ");
  double sum = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) sum += (ours[i] - golden[i]) * (ours[i] - golden[i]);
  const double error = std::sqrt(sum) / (norm(golden) + floor);
  return std::isnan(error) ? 1e300 : error;  // a comparison with NaN would pass as "not larger"
}

}  // namespace bert_hpc::test
