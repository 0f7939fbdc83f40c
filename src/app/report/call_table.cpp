#include "app/report/call_table.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {
namespace {

using Counts = std::array<std::int64_t, core::device_call_names.size()>;

struct Section {
  std::string_view name;
  Counts counts{};
};

std::vector<Section> sections_of(const core::CallCount& count) {
  std::vector<Section> sections;
  for (const core::CallCount::Entry& entry : count.entries()) {
    auto found =
        std::find_if(sections.begin(), sections.end(), [&](const Section& s) { return s.name == entry.section; });
    if (found == sections.end()) found = sections.insert(sections.end(), {entry.section});
    found->counts[static_cast<std::size_t>(entry.call)] += entry.count;
  }
  return sections;
}

std::string row(std::string_view name, std::size_t width, const Counts& counts) {
  std::string text = "  " + std::string(name) + std::string(width - name.size(), ' ');
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::string number = core::with_commas(counts[i]);
    text += std::string(core::device_call_names[i].size() + 2 - std::min<std::size_t>(number.size(), 9), ' ') + number;
  }
  return text + '\n';
}

}  // namespace

std::string call_table(const core::CallCount& count, std::int64_t step) {
  std::vector<Section> sections = sections_of(count);
  Section sum{"all", {}};
  std::size_t width = std::string_view("section").size();
  for (Section& section : sections) {
    if (section.name.empty()) section.name = "between sections";
    width = std::max(width, section.name.size());
    for (std::size_t i = 0; i < sum.counts.size(); ++i) sum.counts[i] += section.counts[i];
  }
  std::string text =
      "Calls of the device in step " + core::with_commas(step) + ", rank 0:\n  section" + std::string(width - 7, ' ');
  for (const std::string_view name : core::device_call_names) text += "  " + std::string(name);
  text += '\n';
  for (const Section& section : sections) text += row(section.name, width, section.counts);
  text += row(sum.name, width, sum.counts);
  for (const core::CallCount::Entry& entry : count.entries()) {
    const std::string number = core::with_commas(entry.count);
    text += "  " + std::string(std::max<std::size_t>(7, number.size()) - number.size(), ' ') + number + "  " +
            std::string(entry.section.empty() ? "between sections" : entry.section) + ", " +
            std::string(core::device_call_names[static_cast<std::size_t>(entry.call)]) + ": " +
            std::string(entry.name) + '\n';
  }
  text.pop_back();
  return text;
}

}  // namespace bert_hpc::app
