#include "app/plan/calibrated_simulation.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Median durations of passes by kind.
class PassTable {
 public:
  PassTable(const io::Trace& trace, const comm::GridShape& grid) {
    std::map<Key, std::vector<double>> exact, others;
    for (const io::TraceEvent& event : trace.events) {
      if (event.category != "compute") continue;
      const int stage = comm::coordinates(grid, event.rank).pipeline;
      exact[{stage, event.virtual_stage, event.name, event.micro_batch}].push_back(event.seconds);
      others[{stage, event.virtual_stage, event.name, -1}].push_back(event.seconds);
    }
    for (auto* table : {&exact, &others}) {
      for (auto& [key, values] : *table) seconds_[key] = median(std::move(values));
    }
  }

  /// For a micro-batch that is in no traced step: the median of the stage's other micro-batches.
  double seconds(int stage, const train::Instruction& i) const {
    Key key{stage, i.virtual_stage, train::instruction_name(i.kind), i.micro_batch};
    auto found = seconds_.find(key);
    if (found == seconds_.end()) {
      std::get<3>(key) = -1;
      found = seconds_.find(key);
    }
    return found == seconds_.end() ? 0 : found->second;
  }

 private:
  using Key = std::tuple<int, int, std::string, int>;  // stage, virtual stage, pass, micro-batch
  std::map<Key, double> seconds_;
};

struct Span {
  double begin = 1e300, end = -1e300;
  void add(const io::TraceEvent& event) {
    begin = std::min(begin, event.begin);
    end = std::max(end, event.begin + event.seconds);
  }
  double seconds() const { return std::max(0.0, end - begin); }
};

/// One traced step on all ranks.
struct Step {
  Span whole, passes;
  double computing = 0;
  std::map<int, double> sums, shares, updates;  // by rank
};

std::map<std::int64_t, Step> steps_of(const io::Trace& trace) {
  std::map<std::int64_t, Step> steps;
  for (const io::TraceEvent& event : trace.events) {
    Step& step = steps[event.step];
    if (event.category == "data") continue;
    step.whole.add(event);
    if (event.category == "compute") {
      step.passes.add(event);
      step.computing += event.seconds;
    }
    if (event.name == "gradient_reduction") step.sums[event.rank] += event.seconds;
    if (event.name == "parameter_all_gather") step.shares[event.rank] += event.seconds;
    if (event.name == "update") step.updates[event.rank] += event.seconds;
  }
  return steps;
}

template <class Choose>
double chosen(const std::map<int, double>& by_rank, const Choose& choose) {
  if (by_rank.empty()) return 0;
  return choose(by_rank.begin(), by_rank.end(), [](const auto& a, const auto& b) { return a.second < b.second; })
      ->second;
}

}  // namespace

CalibratedSimulation simulate_from_trace(train::SimulationInput input, const io::Trace& trace) {
  CalibratedSimulation own;
  const PassTable passes(trace, input.grid);
  std::vector<double> whole, bubbles, sums, shares, updates;
  const auto least = [](auto... a) { return std::min_element(a...); };
  const auto most = [](auto... a) { return std::max_element(a...); };
  for (const auto& [number, step] : steps_of(trace)) {
    whole.push_back(step.whole.seconds());
    const double room = step.passes.seconds() * input.grid.ranks();
    if (room > 0) bubbles.push_back(1 - step.computing / room);
    sums.push_back(chosen(step.sums, least));
    shares.push_back(chosen(step.shares, least));
    updates.push_back(chosen(step.updates, most));
  }
  own.measured_seconds = median(whole);
  own.measured_bubble = median(bubbles);
  input.measured = [passes](int stage, const train::Instruction& i) { return passes.seconds(stage, i); };
  input.measured_tail = {.sums = median(sums), .update = median(updates), .share = median(shares)};
  own.simulated = train::simulate_step(input);
  own.input = std::move(input);
  return own;
}

std::string calibrated_simulation_text(const CalibratedSimulation& own) {
  const auto percent = [](double share) { return core::format_number(std::round(1000 * share) / 10, 3) + '%'; };
  const auto time = [](double seconds) { return core::format_number(seconds * 1e3, 4) + " ms"; };
  std::string text = "traced steps: " + time(own.measured_seconds);
  const bool stages = own.input.grid.pipeline > 1;
  if (stages) text += ", bubble " + percent(own.measured_bubble);
  text += "; simulated with measured pass times: " + time(own.simulated.seconds);
  if (stages) text += ", bubble " + percent(own.simulated.bubble);
  return text;
}

}  // namespace bert_hpc::app
