#include "bert_hpc/app/grid_layout.hpp"

#include <algorithm>
#include <numeric>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {
namespace {

using Numbers = std::vector<std::int64_t>;

[[noreturn]] void refuse(const std::string& text) {
  throw core::Error(core::ExitCode::input, "[parallel] " + text);
}

/// `blocks` shared out over parts as nearly in the proportions of `wanted` as whole numbers from 1 on can be.
Numbers proportional(const Numbers& wanted, std::int64_t blocks) {
  const std::int64_t total = std::accumulate(wanted.begin(), wanted.end(), std::int64_t{0});
  Numbers result;
  for (const std::int64_t one : wanted) result.push_back(std::max<std::int64_t>(1, one * blocks / total));
  const auto short_of = [&](std::size_t i) { return wanted[i] * blocks - result[i] * total; };  // times total
  for (std::int64_t left = blocks - std::accumulate(result.begin(), result.end(), std::int64_t{0}); left != 0;) {
    const std::int64_t change = left > 0 ? 1 : -1;
    std::size_t best = result.size();
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (result[i] + change < 1) continue;
      if (best == result.size() || change * short_of(i) > change * short_of(best)) best = i;
    }
    result[best] += change;
    left -= change;
  }
  return result;
}

void check_balance(const Numbers& balance, std::int64_t parts, std::int64_t virtual_stages, std::int64_t blocks) {
  if (balance.empty()) return;
  const std::int64_t held = std::accumulate(balance.begin(), balance.end(), std::int64_t{0});
  const bool right_size = static_cast<std::int64_t>(balance.size()) == parts;
  if (right_size && held == blocks) return;
  const Numbers even(static_cast<std::size_t>(parts), 1);
  const std::string near = core::list_text(proportional(right_size ? balance : even, blocks));
  const std::string pipeline = "pipeline = " + std::to_string(parts / virtual_stages);
  if (!right_size) {
    refuse("balance = " + core::list_text(balance) + " has " +
           core::counted(static_cast<std::int64_t>(balance.size()), "number") + ", but " + pipeline +
           (virtual_stages == 1 ? "" : " times virtual_stages = " + std::to_string(virtual_stages)) + " needs " +
           std::to_string(parts) + ", one for each part of the model: balance = " + near + ", for one.");
  }
  refuse("balance = " + core::list_text(balance) + " holds " + core::counted(held, "block") + ", but the model has " +
         std::to_string(blocks) + ": balance = " + near + " would fit.");
}

void check_virtual_stages(const config::Parallel& parallel, std::int64_t stages, std::int64_t blocks) {
  const std::int64_t virtual_stages = parallel.virtual_stages;
  if (virtual_stages == 1) return;
  if (stages == 1) {
    refuse("pipeline_schedule = \"interleaved\" needs a pipeline, but the ranks make pipeline = 1: use \"1f1b\".");
  }
  if (!parallel.balance.empty() || blocks % (stages * virtual_stages) == 0) return;
  std::string fitting;
  for (std::int64_t v = 2; v * stages <= blocks; ++v) {
    if (blocks % (v * stages) == 0) fitting += (fitting.empty() ? "" : ", ") + std::to_string(v);
  }
  const Numbers even(static_cast<std::size_t>(stages * virtual_stages), 1);
  refuse("virtual_stages = " + std::to_string(virtual_stages) + " times pipeline = " + std::to_string(stages) +
         " makes " + core::counted(stages * virtual_stages, "part") + ", which do not divide the model's " +
         core::counted(blocks, "block") + " evenly" +
         (fitting.empty() ? ": " : ": virtual_stages = " + fitting + " would, or ") +
         "say how many blocks each part holds, as in balance = " + core::list_text(proportional(even, blocks)) + '.');
}

}  // namespace

comm::GridShape grid_layout(const config::Config& input, int ranks, const model::BertConfig& model) {
  const config::Parallel& parallel = input.parallel;
  const std::int64_t blocks = model.num_hidden_layers, virtual_stages = parallel.virtual_stages;
  if (virtual_stages > blocks) {
    refuse("virtual_stages = " + std::to_string(virtual_stages) + " is more than the model's " +
           core::counted(blocks, "block") + ": each part of the model holds at least one.");
  }
  const comm::GridShape requested{static_cast<int>(parallel.data), static_cast<int>(parallel.pipeline),
                                  static_cast<int>(parallel.tensor)};
  const comm::GridLimits limits{.stages = static_cast<int>(blocks / virtual_stages),
                                .heads = static_cast<int>(model.num_attention_heads),
                                .intermediate = static_cast<int>(model.intermediate_size),
                                .power_of_two_data = input.run.reproducible};
  const comm::GridShape shape = comm::resolve_grid(requested, ranks, limits);
  check_virtual_stages(parallel, shape.pipeline, blocks);
  check_balance(parallel.balance, shape.pipeline * virtual_stages, virtual_stages, blocks);
  return shape;
}

}  // namespace bert_hpc::app
