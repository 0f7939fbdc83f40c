// Upper bound of a journal's size, from the longest line of each kind.
#include <limits>
#include <string>

#include "bert_hpc/io/journal.hpp"
#include "metrics_tables.hpp"

namespace bert_hpc::io {

std::int64_t journal_bytes(const JournalPlan& plan) {
  constexpr std::int64_t integer = std::numeric_limits<std::int64_t>::min();  // this value has the most digits
  constexpr double real = std::numeric_limits<double>::lowest();
  constexpr std::int64_t escaped = 2, beside_text = 4096;
  const auto bytes = [](const std::string& line) {
    return static_cast<std::int64_t>(line.size()) + Journal::line_bytes;
  };
  std::int64_t row =
      bytes(detail::encode(StepRow{integer, real, real, real, real, integer, integer, real, integer, real, integer})) +
      bytes(detail::encode(EfficiencyRow{integer, real, real, real}));
  if (plan.loss_scales) row += bytes(detail::encode(LossScaleRow{integer, real, integer, real}));
  const std::vector<std::pair<std::string, double>> metrics(static_cast<std::size_t>(plan.metrics),
                                                            {"macro_roc_auc", real});
  // In the matrix a count and its separator take two characters, and more only if the count is at least ten samples.
  const std::int64_t matrix = 2 * plan.classes * plan.classes + plan.samples / 10;
  const auto longest_count = static_cast<std::int64_t>(std::to_string(plan.samples).size());
  const std::int64_t evaluation =
      bytes(detail::encode("validation", EvaluationRow{integer, real, metrics, 0, {}, real, {}, {}})) + matrix +
      3 * plan.counted_classes * (1 + longest_count);
  const DataRow data{integer, real, integer, std::vector<std::int64_t>(static_cast<std::size_t>(plan.nodes), integer)};
  // A call has some 200 bytes, and a step calls some hundred different ones.
  const std::int64_t profile = plan.profile ? std::int64_t{64} << 10 : 0;
  return beside_text + profile + escaped * plan.text + plan.rows * row + plan.evaluations * evaluation +
         plan.epochs * bytes(detail::encode(data));
}

}  // namespace bert_hpc::io
