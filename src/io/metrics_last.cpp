// How far an earlier start came, according to its journal.
#include "bert_hpc/io/journal.hpp"
#include "bert_hpc/io/metrics.hpp"
#include "metrics_tables.hpp"

namespace bert_hpc::io {

std::int64_t last_recorded_step(const std::string& directory) {
  detail::MetricsTables tables;
  try {
    Journal::replay(metrics_journal_path(directory), detail::journal_title,
                    [&](std::string_view line) { tables.apply(line); });
  } catch (const core::Error&) {  // no journal, or a damaged one: nothing is known
  }
  return tables.steps.empty() ? 0 : tables.steps.back().step;
}

}  // namespace bert_hpc::io
