#include "bert_hpc/core/call_profile.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::core {

std::size_t CallProfile::Hash::operator()(const Key& key) const {
  const std::hash<const void*> hash;
  return (hash(key.section) * 31 + hash(key.name)) * 31 + static_cast<std::size_t>(key.call);
}

/// Equal texts may lie at several addresses.
CallProfile::Entry& CallProfile::entry_of(DeviceCall call, std::string_view name) {
  const Key key{section_.data(), name.data(), call};
  if (const auto found = indices_.find(key); found != indices_.end()) return entries_[found->second];
  auto entry = std::find_if(entries_.begin(), entries_.end(),
                            [&](const Entry& e) { return e.call == call && e.section == section_ && e.name == name; });
  if (entry == entries_.end()) entry = entries_.insert(entry, {.section = section_, .name = name, .call = call});
  indices_.emplace(key, static_cast<std::size_t>(entry - entries_.begin()));
  return *entry;
}

void CallProfile::add(DeviceCall call, std::string_view name) {
  Entry& entry = entry_of(call, name);
  ++entry.calls;
  entry.seconds = entry.work.flops = entry.work.bytes = unknown_work;
}

void CallProfile::begin(DeviceCall call, std::string_view name, const CallWork& work) {
  Entry& entry = entry_of(call, name);
  ++entry.calls;
  entry.work.flops += work.flops;
  entry.work.bytes += work.bytes;
  const std::size_t i = records_.size();
  records_.push_back({static_cast<std::size_t>(&entry - entries_.data()), open_});
  open_ = i;
  while (marks_.size() < 2 * records_.size()) marks_.emplace_back();
  marks_[2 * i].set();
}

void CallProfile::end() noexcept {
  try {
    marks_[2 * open_ + 1].set();
  } catch (...) {  // an earlier kernel's failure may show here
    failure_ = std::current_exception();
  }
  open_ = records_[open_].outer;
}

std::string_view CallProfile::enter(std::string_view section) {
  return std::exchange(section_, section);
}

void CallProfile::collect() {
  require(open_ == none, "a profile is collected within a call");
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  for (std::size_t i = 0; i < records_.size(); ++i) {
    const double seconds = marks_[2 * i + 1].seconds_since(marks_[2 * i]);
    entries_[records_[i].entry].seconds += seconds;
    if (records_[i].outer != none) entries_[records_[records_[i].outer].entry].seconds -= seconds;
  }
  records_.clear();
}

}  // namespace bert_hpc::core
