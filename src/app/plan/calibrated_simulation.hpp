// A calibrated simulation: simulates the run's schedule with the times of its own passes, sums and updates, measured in
// the traced steps, and compares it with the measured step time. The difference is neither computing nor the schedule's
// bubble: messages, waiting for a late rank, other load on the machine.
#pragma once

#include <string>

#include "bert_hpc/comm/process_grid.hpp"
#include "bert_hpc/io/trace.hpp"
#include "bert_hpc/train/simulate.hpp"

namespace bert_hpc::app {

/// A step as measured and as simulated from its own times.
struct CalibratedSimulation {
  train::SimulationInput input;
  train::SimulatedStep simulated;
  double measured_seconds = 0;  ///< median over steps
  double measured_bubble = 0;   ///< share of the passes' time in which a stage does not compute, the median
};

/// From a measured trace of all ranks of the grid. The time of a pass is the median over steps and over the ranks of
/// its stage; those of sums and of sharing come from the rank that waited the least. `input` gives schedule, balance
/// and micro-batches. Pure.
CalibratedSimulation simulate_from_trace(train::SimulationInput input, const io::Trace& trace);

/// One line with the measured and the simulated values.
std::string calibrated_simulation_text(const CalibratedSimulation& own);

}  // namespace bert_hpc::app
