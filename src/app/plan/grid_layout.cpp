#include "app/plan/grid_layout.hpp"

#include <algorithm>
#include <numeric>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/partition.hpp"

namespace bert_hpc::app {
namespace {

using Numbers = std::vector<std::int64_t>;

/// A model as users count its parts.
struct Blocks {
  std::int64_t count = 0, sublayers_of_block = 1;
  std::int64_t sublayers() const { return count * sublayers_of_block; }
};

std::string text_of(const Numbers& balance, const Blocks& model) {
  return model::balance_text(balance, model.sublayers_of_block);
}

[[noreturn]] void refuse(const std::string& text) {
  throw core::Error(core::ExitCode::input, "[parallel] " + text);
}

/// Distributes `sublayers` over parts in proportions as close to `wanted` as positive integers allow; in whole blocks
/// if these suffice and `wanted` asks for nothing else.
Numbers proportional(const Numbers& wanted, const Blocks& model) {
  const bool whole =
      std::all_of(wanted.begin(), wanted.end(), [&](std::int64_t one) { return one % model.sublayers_of_block == 0; });
  const bool fits = model.sublayers_of_block * std::ssize(wanted) <= model.sublayers();
  const std::int64_t unit = whole && fits ? model.sublayers_of_block : 1, units = model.sublayers() / unit;
  const std::int64_t total = std::accumulate(wanted.begin(), wanted.end(), std::int64_t{0});
  Numbers result;
  for (const std::int64_t one : wanted) result.push_back(std::max<std::int64_t>(1, one * units / total));
  const auto short_of = [&](std::size_t i) { return wanted[i] * units - result[i] * total; };  // multiplied by total
  for (std::int64_t left = units - std::accumulate(result.begin(), result.end(), std::int64_t{0}); left != 0;) {
    const std::int64_t change = left > 0 ? 1 : -1;
    std::size_t best = result.size();
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (result[i] + change < 1) continue;
      if (best == result.size() || change * short_of(i) > change * short_of(best)) best = i;
    }
    result[best] += change;
    left -= change;
  }
  for (std::int64_t& one : result) one *= unit;
  return result;
}

Numbers even(std::int64_t parts, const Blocks& model) {
  return Numbers(static_cast<std::size_t>(parts), model.sublayers_of_block);
}

std::string blocks_counted(std::int64_t sublayers, const Blocks& model) {
  if (sublayers % model.sublayers_of_block == 0) return core::counted(sublayers / model.sublayers_of_block, "block");
  return core::format_number(static_cast<double>(sublayers) / static_cast<double>(model.sublayers_of_block)) +
         " blocks";
}

void check_balance(const Numbers& balance, std::int64_t parts, std::int64_t virtual_stages, const Blocks& model) {
  if (balance.empty()) return;
  const std::int64_t held = std::accumulate(balance.begin(), balance.end(), std::int64_t{0});
  const bool right_size = std::ssize(balance) == parts;
  if (right_size && held == model.sublayers()) return;
  const std::string near = text_of(proportional(right_size ? balance : even(parts, model), model), model);
  const std::string pipeline = "pipeline = " + std::to_string(parts / virtual_stages);
  if (!right_size) {
    refuse("balance = " + text_of(balance, model) + " has " + core::counted(std::ssize(balance), "number") + ", but " +
           pipeline + (virtual_stages == 1 ? "" : " times virtual_stages = " + std::to_string(virtual_stages)) +
           " needs " + std::to_string(parts) + ", one for each part of the model: balance = " + near +
           ", for example.");
  }
  refuse("balance = " + text_of(balance, model) + " holds " + blocks_counted(held, model) + ", but the model has " +
         std::to_string(model.count) + ": balance = " + near + " would fit.");
}

void check_virtual_stages(const config::Parallel& parallel, std::int64_t stages, const Blocks& model) {
  const std::int64_t virtual_stages = parallel.virtual_stages, sublayers = model.sublayers();
  if (virtual_stages == 1) return;
  if (stages == 1) {
    refuse("pipeline_schedule = \"interleaved\" needs a pipeline, but the ranks make pipeline = 1: use \"1f1b\".");
  }
  if (!parallel.balance.empty() || sublayers % (stages * virtual_stages) == 0) return;
  std::string fitting;
  for (std::int64_t v = 2; v * stages <= sublayers; ++v) {
    if (sublayers % (v * stages) == 0) fitting += (fitting.empty() ? "" : ", ") + std::to_string(v);
  }
  refuse("virtual_stages = " + std::to_string(virtual_stages) + " times pipeline = " + std::to_string(stages) +
         " makes " + core::counted(stages * virtual_stages, "part") +
         ", which do not divide the sublayers of the model's " + core::counted(model.count, "block") + " evenly" +
         (fitting.empty() ? ": " : ": virtual_stages = " + fitting + " would, or ") +
         "say how many blocks each part holds, as in balance = " +
         text_of(proportional(even(stages * virtual_stages, model), model), model) + '.');
}

}  // namespace

comm::GridShape grid_layout(const config::Config& input, int ranks, const model::ModelConfig& model) {
  const config::Parallel& parallel = input.parallel;
  const model::ModelPlan plan = model::make_plan(model, layers::sequence_head(), 1);
  const std::int64_t of_block = plan.sublayers_of_block();
  const Blocks blocks = {.count = plan.sublayer_count() / of_block, .sublayers_of_block = of_block};
  const std::int64_t sublayers = blocks.sublayers(), virtual_stages = parallel.virtual_stages;
  if (virtual_stages > sublayers) {
    refuse("virtual_stages = " + std::to_string(virtual_stages) + " is more than the model's " +
           core::counted(blocks.count, "block") + " can be cut into: each part of the model holds " +
           core::format_number(1.0 / static_cast<double>(blocks.sublayers_of_block)) + " of a block or more.");
  }
  if (parallel.tensor > 1 && !plan.can_be_shared()) {
    refuse("tensor = " + std::to_string(parallel.tensor) + " is not possible with a model of the family \"" +
           model.family + "\", whose layers cannot be shared out by ranks: use data or pipeline instead.");
  }
  const comm::GridShape requested{static_cast<int>(parallel.data), static_cast<int>(parallel.pipeline),
                                  static_cast<int>(parallel.tensor)};
  const comm::GridLimits limits{.stages = static_cast<int>(sublayers / virtual_stages),
                                .heads = static_cast<int>(model.key_value_heads()),
                                .heads_are_of_keys = model.key_value_heads() != model.num_attention_heads,
                                .intermediate = static_cast<int>(model.intermediate_size),
                                .vocabulary = static_cast<int>(model.vocab_size),
                                .power_of_two_data = input.run.reproducible};
  const comm::GridShape shape = comm::resolve_grid(requested, ranks, limits);
  check_virtual_stages(parallel, shape.pipeline, blocks);
  check_balance(model::in_sublayers(parallel.balance, blocks.sublayers_of_block), shape.pipeline * virtual_stages,
                virtual_stages, blocks);
  return shape;
}

}  // namespace bert_hpc::app
