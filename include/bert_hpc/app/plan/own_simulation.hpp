// A run's simulation of itself: its schedule played with the times that its own passes, sums and updates took in the
// traced steps, beside what those steps took as a whole. What lies between the two is neither computing nor the
// schedule's bubble: messages, waiting for a rank that came late, other work on the machine.
#pragma once

#include <string>

#include "bert_hpc/comm/process_grid.hpp"
#include "bert_hpc/io/trace.hpp"
#include "bert_hpc/train/simulate.hpp"

namespace bert_hpc::app {

/// A step as it was measured, and as its own times make it.
struct OwnSimulation {
  train::SimulationInput input;
  train::SimulatedStep simulated;
  double measured_seconds = 0;  ///< of the step, the median
  double measured_bubble = 0;   ///< share of the passes' time in which a stage computes none, the median
};

/// From a measured trace of all ranks of the grid. Of each pass the median over steps and over the ranks of its stage;
/// of sums and of sharing what the rank took that waited the least. `input` says schedule, cut and micro-batches. Pure.
OwnSimulation simulate_from_trace(train::SimulationInput input, const io::Trace& trace);

/// One line: measured and simulated.
std::string own_simulation_text(const OwnSimulation& own);

}  // namespace bert_hpc::app
