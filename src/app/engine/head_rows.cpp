#include "app/engine/head_rows.hpp"

namespace bert_hpc::app {

double mask_probability(const config::Config& input) {
  return input.task.number(tasks::mask_probability_key, 0.15);
}

double expected_targets(const config::Config& input, double sequences, double tokens, double computed) {
  switch (tasks::named(input.task.name).rows) {
    case tasks::HeadRows::first_tokens:
      return sequences;
    case tasks::HeadRows::masked_tokens:
      return mask_probability(input) * tokens;
    case tasks::HeadRows::all_tokens:
      return computed;
    case tasks::HeadRows::words:
      return tokens;
  }
  return sequences;
}

std::int64_t planned_targets(const tasks::Task& task, std::int64_t sequences, std::int64_t tokens) {
  switch (task.rows) {
    case tasks::HeadRows::first_tokens:
      return sequences;
    case tasks::HeadRows::masked_tokens:
      return tokens / 5;
    case tasks::HeadRows::all_tokens:
    case tasks::HeadRows::words:
      return tokens;
  }
  return sequences;
}

}  // namespace bert_hpc::app
