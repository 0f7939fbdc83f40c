// metrics.h5 from the journal alone, as the next start builds it after a kill.
#pragma once

#include <string>
#include <string_view>

#include "../src/io/metrics_tables.hpp"
#include "bert_hpc/io/atomic_write.hpp"
#include "bert_hpc/io/journal.hpp"
#include "bert_hpc/io/metrics.hpp"

namespace bert_hpc::test {

/// Returns the number of damaged lines, which are skipped.
inline std::int64_t rebuild_metrics(const std::string& directory) {
  namespace io = bert_hpc::io;
  io::detail::MetricsTables tables;
  std::int64_t unknown = 0;
  const auto apply = [&](std::string_view line) { unknown += tables.apply(line) ? 0 : 1; };
  const std::int64_t bad = io::Journal::replay(io::metrics_journal_path(directory), io::detail::journal_title, apply);
  const std::string path = io::metrics_path(directory);
  io::write_file(path, tables.to_hdf5(path));
  return bad + unknown;
}

}  // namespace bert_hpc::test
