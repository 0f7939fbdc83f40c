// What a run tells about itself before it starts, gathered from all ranks; and the lines in between.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/app/application.hpp"
#include "bert_hpc/app/assembly.hpp"
#include "bert_hpc/app/data_sets.hpp"
#include "bert_hpc/io/metrics.hpp"

namespace bert_hpc::app {

/// Versions of what this program is built on.
std::vector<std::string> library_versions();

/// Collective. The banner and warnings about the ranks' placement.
void describe_run(const RunContext& context, const Assembly& assembly, const DataSets& sets, const MemoryPlan& memory,
                  const std::vector<std::pair<std::string, std::string>>& more);

/// What memory was used beside what was planned, of the rank that exceeds its plan by most; "" where the system does
/// not say.
std::string memory_line(const std::vector<io::RankRow>& ranks);

/// "validation at step 120: loss 0.5123, accuracy 0.8412, macro f1 0.8123, …"; without a step where nothing was
/// trained.
std::string evaluation_line(const std::string& task, const std::string& split, const io::EvaluationRow& row);

/// What --validate says of a directory that no run may begin in as it is; nothing where `why` is empty.
void tell_directory(const RunContext& context, const std::string& why);

}  // namespace bert_hpc::app
