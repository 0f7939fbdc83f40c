#include <algorithm>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/objectives/objective.hpp"

namespace bert_hpc::objectives {

// Each is defined in the file of its name.
Objective classification();
Objective regression();
Objective masked_lm();
Objective masked_lm_pairs();
Objective causal_lm();
Objective multi_label();
Objective question_answering();
Objective token_classification();
Objective answer_ranking();
Objective embedding();
Objective class_embedding();
const Objective& embed(const config::Embed& embed);

const Objective& named(std::string_view name) {
  static const std::vector<Objective> all = {
      classification(), multi_label(),     regression(), token_classification(), question_answering(), answer_ranking(),
      embedding(),      class_embedding(), masked_lm(),  masked_lm_pairs(),      causal_lm()};
  const tasks::Task& task = tasks::named(name);
  const auto found = std::find_if(all.begin(), all.end(), [&](const Objective& o) { return o.task == &task; });
  core::require(found != all.end(), "every task has an objective");
  return *found;
}

const Objective& of(const config::Config& input) {
  if (input.embeds()) return embed(input.embed);
  const Objective& usual = named(input.task.name);
  return usual.with != nullptr ? usual.with(input.task) : usual;
}

}  // namespace bert_hpc::objectives
