#include "skipped_step.hpp"

#include <algorithm>
#include <cmath>

#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {
namespace {

std::string number_text(double value) {
  return std::isnan(value) ? "nan" : core::format_number(value);  // without the sign that some give it
}

}  // namespace

std::string skipped_text(std::int64_t step, const StepResult& result,
                         const std::function<std::string(std::int64_t sample)>& place) {
  std::string text = "step " + core::with_commas(step) + " was skipped, as its ";
  text += std::isfinite(result.loss) ? "gradient norm is " + number_text(result.gradient_norm) +
                                           " (the loss is finite, so any of these may be the reason: "
                                     : "loss is " + number_text(result.loss) + " (";
  constexpr std::size_t named = 8;
  const std::size_t count = result.bad_samples.size();
  for (std::size_t i = 0; i < std::min(named, count); ++i) {
    text += (i > 0 ? "; " : "") + place(result.bad_samples[i]);
  }
  text += (count > named ? "; and " + core::with_commas(static_cast<std::int64_t>(count - named)) + " more)" : ")");
  return text;
}

}  // namespace bert_hpc::app
