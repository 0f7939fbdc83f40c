#include "app/report/step_trace.hpp"

#include <algorithm>
#include <cmath>

#include "app/run/collective.hpp"
#include "app/run/machine.hpp"
#include "bert_hpc/comm/objects.hpp"

namespace bert_hpc::app {
namespace {

/// How timed sections are called in traces; others keep their names.
struct Naming {
  std::string_view section;
  const char *event, *category;
};
constexpr Naming namings[] = {{"forward", "forward", "compute"},
                              {"backward", "backward", "compute"},
                              {"backward input", "backward_input", "compute"},
                              {"backward weight", "backward_weight", "compute"},
                              {"pipeline wait", "pipeline_wait", "communication"},
                              {"gradient reduction", "gradient_reduction", "communication"},
                              {"gradient accumulation", "gradient_reduction", "communication"},
                              {"optimizer", "update", "update"},
                              {"parameter all-gather", "parameter_all_gather", "communication"},
                              {"data loading", "data_loading", "data"}};

double since(core::Timers::Clock::time_point zero, core::Timers::Clock::time_point time) {
  return std::chrono::duration<double>(time - zero).count();
}

/// An instant that all ranks call zero. Ranks of a host share a clock and take the same reading of it; those of
/// different hosts, readings behind one barrier.
core::Timers::Clock::time_point common_zero(comm::Communicator& world) {
  using Clock = core::Timers::Clock;
  const std::string host = inspect_machine().host;
  world.barrier();
  const std::int64_t now = Clock::now().time_since_epoch().count();
  for (const auto& [first_host, ticks] : comm::all_gather_objects(world, std::pair(host, now))) {
    if (first_host == host) return Clock::time_point(Clock::duration(ticks));  // of the host's first rank
  }
  return Clock::time_point(Clock::duration(now));
}

std::string row_name(const comm::GridShape& grid, int rank) {
  const comm::GridCoordinates own = comm::coordinates(grid, rank);
  std::string name = "rank " + std::to_string(rank), where;
  const auto add = [&where](const char* direction, int size, int at) {
    if (size > 1) where += (where.empty() ? "" : ", ") + std::string(direction) + ' ' + std::to_string(at);
  };
  add("stage", grid.pipeline, own.pipeline);
  add("replica", grid.data, own.data);
  add("tensor", grid.tensor, own.tensor);
  return where.empty() ? name : name + " (" + where + ')';
}

}  // namespace

std::vector<io::TraceEvent> step_events(const std::vector<core::Timers::Span>& spans,
                                        const std::vector<train::TimedInstruction>& instructions,
                                        core::Timers::Clock::time_point zero, int rank, std::int64_t step) {
  std::vector<io::TraceEvent> events;
  auto next = instructions.begin();
  int forwards = 0, backwards = 0, weights = 0;
  for (const core::Timers::Span& span : spans) {
    io::TraceEvent event{.name = std::string(span.name), .category = "other", .rank = rank};
    for (const Naming& naming : namings) {
      if (naming.section != span.name) continue;
      event.name = naming.event;
      event.category = naming.category;
    }
    event.begin = since(zero, span.begin);
    event.seconds = since(span.begin, span.end);
    event.step = step;
    if (event.category == "compute") {
      next = std::find_if(next, instructions.end(), [](const auto& timed) { return computes(timed.instruction); });
      if (next != instructions.end()) {
        event.micro_batch = next->instruction.micro_batch;
        event.virtual_stage = next->instruction.virtual_stage;
        ++next;
      } else if (instructions.empty()) {
        int& count = event.name == "forward" ? forwards : event.name == "backward_weight" ? weights : backwards;
        event.micro_batch = count++;
      }
    }
    events.push_back(std::move(event));
  }
  return events;
}

StepTrace::StepTrace(bool on, std::int64_t total_steps, comm::Communicator& world, core::Timers& timers,
                     std::size_t max_spans)
    : on_(on), world_(world), timers_(timers) {
  if (!on_) return;
  first_ = std::clamp<std::int64_t>(total_steps - 1, 0, warm_up_steps);
  wanted_ = std::min(most_steps, total_steps - first_);
  spans_.reserve(max_spans);
  instructions_.reserve(max_spans);
  zero_ = common_zero(world_);
}

void StepTrace::begin(std::int64_t step) {
  tracing_ = on_ && step >= first_ && traced_ < wanted_;
  if (!tracing_) return;
  spans_.clear();
  instructions_.clear();
  timers_.record(&spans_);
}

void StepTrace::end(std::int64_t step) {
  if (!tracing_) return;
  timers_.record(nullptr);
  tracing_ = false;
  ++traced_;
  const auto events = step_events(spans_, instructions_, zero_, world_.rank(), step);
  events_.insert(events_.end(), events.begin(), events.end());
}

std::optional<io::Trace> StepTrace::write(const std::string& path, const comm::GridShape& grid,
                                          const std::string& schedule) {
  if (!pending()) return std::nullopt;
  written_ = true;
  const std::vector<std::vector<io::TraceEvent>> ranks = comm::all_gather_objects(world_, events_);
  std::optional<io::Trace> written;
  collectively(world_, [&] {
    if (world_.rank() != 0) return;
    io::Trace& trace = written.emplace();
    trace.facts = {{"kind", "measured"}, {"schedule", schedule}, {"grid", comm::describe(grid)}};
    for (const std::vector<io::TraceEvent>& events : ranks) {
      trace.ranks.push_back(row_name(grid, static_cast<int>(trace.ranks.size())));
      trace.events.insert(trace.events.end(), events.begin(), events.end());
    }
    io::write_trace(path, trace);
  });
  return written;
}

}  // namespace bert_hpc::app
