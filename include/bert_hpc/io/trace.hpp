// Traces in the JSON form that Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) open: the activities of each
// rank over time, one row per rank. Simulated and measured steps share the format, so that these tools or
// postprocess/plot_timeline.py can compare them. Format: "Trace Event Format", Google, complete events ("ph": "X").
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace bert_hpc::io {

struct TraceEvent {
  std::string name;      ///< activity, e.g. "forward"
  std::string category;  ///< "compute", "communication", "update", …
  int rank = 0;
  double begin = 0, seconds = 0;  ///< begin is relative to the trace's begin
  std::int64_t step = -1;         ///< -1: none
  int micro_batch = -1;           ///< -1: none
  int virtual_stage = 0;

  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.name, self.category, self.rank, self.begin, self.seconds, self.step, self.micro_batch,
                    self.virtual_stage);
  }
};

struct Trace {
  std::vector<std::pair<std::string, std::string>> facts;  ///< name and text, e.g. {"kind", "simulated"}
  std::vector<std::string> ranks;                          ///< names of the rows, by rank; "": no row
  std::vector<TraceEvent> events;
};

/// The file's text. Times are in microseconds, to the nanosecond.
std::string trace_json(const Trace& trace);

/// Writes the file atomically. Throws Error(files).
void write_trace(const std::string& path, const Trace& trace);

}  // namespace bert_hpc::io
