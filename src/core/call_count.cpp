#include "bert_hpc/core/call_count.hpp"

#include <utility>

namespace bert_hpc::core {

void CallCount::add(DeviceCall call, std::string_view name) {
  for (Entry& entry : entries_) {
    if (entry.call != call || entry.section != section_ || entry.name != name) continue;
    ++entry.count;
    return;
  }
  entries_.push_back({section_, name, call, 1});
}

std::string_view CallCount::enter(std::string_view section) {
  return std::exchange(section_, section);
}

std::int64_t CallCount::total(DeviceCall call) const {
  return total(call, {});
}

std::int64_t CallCount::total(DeviceCall call, std::string_view part) const {
  std::int64_t sum = 0;
  for (const Entry& entry : entries_) {
    if (entry.call == call && entry.name.find(part) != std::string_view::npos) sum += entry.count;
  }
  return sum;
}

}  // namespace bert_hpc::core
