#include "app/report/rank_time.hpp"

#include <string_view>

namespace bert_hpc::app {

RankTime rank_time(std::span<const core::Timers::Section> sections, double wall) {
  RankTime time;
  time.wall = wall;
  for (const core::Timers::Section& section : sections) {
    const std::string_view name = section.name;
    if (name == "forward" || name.starts_with("backward") || name == "gradient accumulation" || name == "optimizer") {
      time.computing += section.work_seconds();
    } else if (name == "gradient reduction" || name == "parameter all-gather") {
      time.communicating += section.work_seconds();
    } else if (name == "pipeline wait" || name == "data loading") {  // not "checkpoint wait"
      time.waiting += section.work_seconds();
    }
  }
  return time;
}

}  // namespace bert_hpc::app
