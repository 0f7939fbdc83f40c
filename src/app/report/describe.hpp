// What a run prints about itself before it starts, gathered from all ranks; and the lines in between.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "app/engine/data_sets.hpp"
#include "app/engine/model_instance.hpp"
#include "app/report/banner.hpp"
#include "app/run/run_context.hpp"
#include "bert_hpc/io/metrics.hpp"

namespace bert_hpc::app {

/// Versions of what this program is built on.
std::vector<std::string> library_versions();

/// Collective. What the banner says of a run of any mode: program, machine, ranks, input.
BannerFacts start_facts(const RunContext& context);

/// Collective. The banner and warnings about the ranks' placement; for --validate also a warning where the plan of the
/// stage with the most memory (`most_bytes` per rank) does not fit. Throws Error(input) for a machine description that
/// cannot be used.
void describe_run(const RunContext& context, const ModelInstance& model, const DataSets& sets, const MemoryPlan& memory,
                  std::int64_t most_bytes, const std::vector<std::pair<std::string, std::string>>& more);

/// Planned and peak memory of the rank that exceeds its plan by most; "" if the system does not report it.
std::string memory_line(const std::vector<io::RankRow>& ranks);

/// "validation at step 120: loss 0.5123, accuracy 0.8412, macro f1 0.8123, …"; without a step where nothing was
/// trained.
std::string evaluation_line(const std::string& split, const io::EvaluationRow& row, const ModelInstance& model);

/// Last line of --validate.
inline constexpr const char* valid_input = "The input is valid. Nothing was computed.";

/// For --validate: a note that the run directory would be refused, and why; nothing where `why` is empty.
void note_directory(core::Log& log, const std::string& why);

}  // namespace bert_hpc::app
