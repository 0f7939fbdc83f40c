#include "app/engine/training_state.hpp"

#include <string_view>
#include <type_traits>

namespace bert_hpc::app {
namespace {

constexpr const char *fp8_name = "fp8_magnitudes", *unit_name = "label_unit", *targets_name = "row_targets",
                     *computed_name = "computed_tokens", *row_computed_name = "row_computed_tokens",
                     *earlier_name = "earlier_updates", *ended_name = "ended";

bool older_lack(std::string_view name) {
  return name.starts_with("loss_scale") || name == targets_name || name == computed_name || name == row_computed_name ||
         name == earlier_name || name == ended_name;
}

/// Every number with its name in the file: the one list for both directions.
template <class State, class Visit>
void visit_fields(State& state, const Visit& visit) {
  visit("done", state.done);
  visit("samples", state.samples);
  visit("tokens", state.tokens);
  visit(computed_name, state.computed_tokens);
  visit("evaluation_due", state.evaluation_due);
  visit("row_samples", state.row.samples);
  visit("row_tokens", state.row.tokens);
  visit(row_computed_name, state.row.computed_tokens);
  visit("row_loss", state.row.loss);
  visit("row_seconds", state.row.seconds);
  visit("row_skipped", state.row.skipped);
  visit(targets_name, state.row_targets);
  visit("row_skipped_samples", state.row_skipped_samples);
  visit("skipped", state.skipped.total);
  visit("skipped_in_a_row", state.skipped.in_a_row);
  visit(earlier_name, state.earlier_updates);
  visit(ended_name, state.ended);
  visit("training_seconds", state.training_seconds);
  visit("seconds", state.seconds);
  visit("flops", state.flops);
  visit("recorded_noise_scale", state.recorded_noise_scale);
  visit("noise_weight", state.noise.weight);
  visit("noise_trace", state.noise.trace);
  visit("noise_square", state.noise.square);
  visit("loss_scale", state.loss_scale.scale);
  visit("loss_scale_growth_tracker", state.loss_scale.growth_tracker);
  visit("loss_scale_skipped", state.loss_scale.skipped);
  visit("best_kept", state.best.kept);
  visit("best_value", state.best.value);
  visit("best_step", state.best.step);
  visit("evaluations_since_best", state.best.evaluations_since);
  visit("log_bytes", state.log_bytes);
}

}  // namespace

void put(const TrainingState& state, io::CheckpointManifest& manifest) {
  visit_fields(state, [&](const char* name, const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, double>) {
      manifest.reals.emplace_back(name, value);
    } else {
      manifest.integers.emplace_back(name, static_cast<std::int64_t>(value));
    }
  });
  if (!state.label_unit.empty()) manifest.texts.emplace_back(unit_name, state.label_unit);
  if (!state.fp8_magnitudes.empty()) manifest.texts.emplace_back(fp8_name, state.fp8_magnitudes);
}

TrainingState training_state(const io::CheckpointManifest& manifest) {
  TrainingState state;
  visit_fields(state, [&](const char* name, auto& value) {
    using T = std::decay_t<decltype(value)>;
    if (older_lack(name) && !manifest.has_number(name)) return;
    if constexpr (std::is_same_v<T, double>) {
      value = manifest.real(name);
    } else {
      value = static_cast<T>(manifest.integer(name));
    }
  });
  // Older sums were over samples.
  if (!manifest.has_number(targets_name)) {
    state.row_targets = static_cast<double>(state.row.samples - state.row_skipped_samples);
  }
  // Older versions had no padding.
  if (!manifest.has_number(computed_name)) {
    state.computed_tokens = state.tokens;
    state.row.computed_tokens = state.row.tokens;
  }
  for (const auto& [name, text] : manifest.texts) {
    if (name == fp8_name) state.fp8_magnitudes = text;
    if (name == unit_name) state.label_unit = text;
  }
  return state;
}

std::vector<std::pair<std::string, double>> run_totals(const TrainingState& state, double timed_seconds) {
  return {{"steps", static_cast<double>(state.done)},
          {"samples", static_cast<double>(state.samples)},
          {"tokens", static_cast<double>(state.tokens)},
          {"computed_tokens", static_cast<double>(state.computed_tokens)},
          {"skipped_steps", static_cast<double>(state.skipped.total)},
          {"training_seconds", state.training_seconds},
          {"seconds", state.seconds},
          {"timed_seconds", timed_seconds},
          {"model_flops", state.flops}};
}

}  // namespace bert_hpc::app
