// [task] threshold = "search": the validation split decides on the threshold of label sets for the test split.
#pragma once

#include <cstdint>
#include <functional>

#include "app/run/run_context.hpp"
#include "app/session.hpp"

namespace bert_hpc::app {

/// Collective. Evaluates the validation split and gives the model its best threshold, where the input asks for that.
/// False where `asked_to_stop`, which is collective, ended the evaluation.
bool search_threshold(Session& session, const RunContext& context, std::int64_t step,
                      const std::function<bool()>& asked_to_stop);

}  // namespace bert_hpc::app
