// What the journal of an earlier start says of how far it came.
#include "bert_hpc/io/journal.hpp"
#include "bert_hpc/io/metrics.hpp"
#include "metrics_tables.hpp"

namespace bert_hpc::io {

std::int64_t last_recorded_step(const std::string& directory) {
  detail::MetricsTables tables;
  try {
    Journal::replay(metrics_journal_path(directory), detail::journal_title,
                    [&](std::string_view line) { tables.apply(line); });
  } catch (const core::Error&) {  // none, or damaged: nothing is known
  }
  return tables.steps.empty() ? 0 : tables.steps.back().step;
}

}  // namespace bert_hpc::io
