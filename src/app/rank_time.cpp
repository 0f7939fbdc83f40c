#include "bert_hpc/app/rank_time.hpp"

#include <string_view>

namespace bert_hpc::app {

RankTime rank_time(std::span<const core::Timers::Section> sections, double wall) {
  RankTime time;
  time.wall = wall;
  for (const core::Timers::Section& section : sections) {
    const std::string_view name = section.name;
    if (name == "forward" || name.starts_with("backward") || name == "optimizer") {
      time.computing += section.seconds;
    } else if (name == "gradient sums" || name == "share parameters") {
      time.communicating += section.seconds;
    } else if (name == "pipeline wait" || name == "data wait") {  // a checkpoint's may be after the last step
      time.waiting += section.seconds;
    }
  }
  return time;
}

}  // namespace bert_hpc::app
