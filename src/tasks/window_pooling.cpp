#include "bert_hpc/tasks/window_pooling.hpp"

#include <algorithm>
#include <cmath>

namespace bert_hpc::tasks {
namespace {

constexpr const char* mean_word = "mean";
constexpr const char* max_word = "max";
constexpr const char* first_word = "first";

}  // namespace

Key window_pooling_key() {
  return {.name = windows_key, .usual = Words{{mean_word, max_word, first_word}}};
}

WindowPooling window_pooling(std::string_view word) {
  return word == max_word ? WindowPooling::max : word == first_word ? WindowPooling::first : WindowPooling::mean;
}

void WindowPool::add(std::span<const float> outputs) {
  for (std::size_t i = 0; i < accumulators_.size(); ++i) {
    const double output = outputs[i];
    if (windows_ == 0) {
      accumulators_[i] = output;
    } else if (kind_ == WindowPooling::mean) {
      accumulators_[i] += output;
    } else if (kind_ == WindowPooling::max) {
      accumulators_[i] = std::isnan(output) ? output : std::max(accumulators_[i], output);  // a sum that is NaN stays
    }
  }
  ++windows_;
}

void WindowPool::finish(std::span<float> outputs) {
  const double divisor = kind_ == WindowPooling::mean ? static_cast<double>(windows_) : 1.0;
  for (std::size_t i = 0; i < accumulators_.size(); ++i) outputs[i] = static_cast<float>(accumulators_[i] / divisor);
  windows_ = 0;
}

}  // namespace bert_hpc::tasks
