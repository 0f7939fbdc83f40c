#include "app/engine/skipped_step.hpp"

#include <algorithm>
#include <cmath>

#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {
namespace {

/// "train-0.h5, sequences 3, 17; train-1.h5, sequence 0": locations in the order of their files.
std::string locations_text(const std::vector<data::SampleLocation>& locations) {
  std::string text;
  for (std::size_t i = 0; i < locations.size(); ++i) {
    const bool first = i == 0 || locations[i].file != locations[i - 1].file;
    const bool several = i + 1 < locations.size() && locations[i + 1].file == locations[i].file;
    if (first) text += (i > 0 ? "; " : "") + locations[i].file + (several ? ", sequences " : ", sequence ");
    if (!first) text += ", ";
    text += std::to_string(locations[i].sequence);
  }
  return text;
}

}  // namespace

std::string skipped_text(std::int64_t step, const StepResult& result,
                         const std::function<data::SampleLocation(std::int64_t sample)>& location_of) {
  std::string text = "step " + core::with_commas(step) + " was skipped, as its ";
  text += std::isfinite(result.loss) ? "gradient norm is " + core::format_number(result.gradient_norm) +
                                           " (the loss is finite, so any of these may be the reason: "
                                     : "loss is " + core::format_number(result.loss) + " (";
  constexpr std::size_t named = 8;
  const std::size_t count = result.bad_samples.size();
  std::vector<data::SampleLocation> locations;
  for (std::size_t i = 0; i < std::min(named, count); ++i) locations.push_back(location_of(result.bad_samples[i]));
  text += locations_text(locations);
  text += (count > named ? "; and " + core::with_commas(static_cast<std::int64_t>(count - named)) + " more)" : ")");
  return text;
}

std::string divergence_advice(bool fp16, double max_gradient_norm) {
  const std::string clipping = max_gradient_norm == 0 ? "clipping (optimizer.max_gradient_norm = 1.0)"
                                                      : "a smaller optimizer.max_gradient_norm (it is " +
                                                            core::format_number(max_gradient_norm) + ")";
  return std::string(fp16 ? "precision.compute = \"bf16\" has the range that fp16 lacks. " : "") +
         "A smaller optimizer.learning_rate, a longer warm-up (schedule.warmup_ratio) or " + clipping +
         " usually helps. Otherwise check these samples (a label far larger than the others, for instance) and the "
         "pretrained weights for extreme values.";
}

SkipReport skip_report(std::int64_t skipped) {
  constexpr std::int64_t counted_every = 100;
  if (skipped <= max_skips_listed) return SkipReport::details;
  return skipped % counted_every == 0 ? SkipReport::count : SkipReport::nothing;
}

std::string nothing_trained_text(std::int64_t steps) {
  const bool one = steps == 1;
  return (one ? std::string("The only step was") : "All " + core::with_commas(steps) + " steps were") +
         " skipped, because the loss or the gradient was not finite in " + (one ? "it" : "each of them") +
         ". The model is untrained, so none was written.";
}

}  // namespace bert_hpc::app
