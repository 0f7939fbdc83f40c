// The trace of a simulated step, in the form of a measured one.
#pragma once

#include "bert_hpc/io/trace.hpp"
#include "bert_hpc/train/simulate.hpp"

namespace bert_hpc::app {

/// One row a stage, as its first rank. Pure.
io::Trace simulated_trace(const train::SimulationInput& simulated, const train::SimulatedStep& step);

}  // namespace bert_hpc::app
