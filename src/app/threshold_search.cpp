#include "app/threshold_search.hpp"

#include <map>
#include <optional>
#include <string>

#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {

bool search_threshold(Session& session, const RunContext& context, std::int64_t step,
                      const std::function<bool()>& asked_to_stop) {
  if (!session.model->output_rules.searches_threshold) return true;
  const std::optional<io::EvaluationRow> row = session.validation->evaluate_unless(step, asked_to_stop);
  if (!row) return false;
  std::map<std::string, double> found(row->metrics.begin(), row->metrics.end());
  const double threshold = found["best_threshold"];
  if (!(threshold > 0 && threshold < 1)) {
    context.log.warning("the validation split has no best threshold, as it has no labels: 0.5 is used.");
    return true;
  }
  session.model->output_rules.least_output = objectives::output_of(threshold);
  context.log.info("threshold " + core::format_number(threshold, 9) +
                   " has the best micro f1 of the validation split, " + core::format_number(found["best_micro_f1"]) +
                   "; for predictions set task.threshold to it");
  return true;
}

}  // namespace bert_hpc::app
