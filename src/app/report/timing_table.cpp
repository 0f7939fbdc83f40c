#include "bert_hpc/app/report/timing_table.hpp"

#include <algorithm>
#include <cstdio>

#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {

namespace {

/// Sections that would round to 0 in the table are not listed.
constexpr double shown_seconds = 0.0005;

std::string row(const std::string& name, std::size_t width, const std::string& calls, double low, double mean,
                double high, double percent) {
  char numbers[160];
  std::snprintf(numbers, sizeof numbers, " %12s %11.3f %11.3f %11.3f %8.1f\n", calls.c_str(), low, mean, high, percent);
  return "  " + name + std::string(width - name.size(), ' ') + numbers;
}

std::string heading(std::size_t width) {
  char names[160];
  std::snprintf(names, sizeof names, " %12s %11s %11s %11s %8s\n", "calls", "min s", "avg s", "max s", "% wall");
  return "  section" + std::string(width - 7, ' ') + names;
}

std::string padding_line(const TimingFacts& facts) {
  const std::int64_t padding = facts.computed_tokens - facts.tokens;
  if (padding <= 0) return {};
  const double share = static_cast<double>(padding) / static_cast<double>(facts.computed_tokens);
  return "  " + core::format_number(100.0 * share, 3) + "% of the " + core::with_commas(facts.computed_tokens) +
         " computed tokens are padding\n";
}

}  // namespace

std::string timing_table(const TimingFacts& facts) {
  std::size_t width = 12;
  for (const io::TimerRow& section : facts.sections) width = std::max(width, section.name.size());
  std::string text = "Time by section, over " + core::counted(facts.ranks, "rank") +
                     (facts.of_launches ? " (time of the host; GPU kernels run asynchronously)" : "") + ":\n" +
                     heading(width);
  const double wall = facts.wall_seconds;
  const auto percent = [wall](double seconds) { return wall > 0 ? 100.0 * seconds / wall : 0.0; };
  double low = 0, mean = 0, high = 0;
  for (const io::TimerRow& section : facts.sections) {
    low += section.seconds_min;
    mean += section.seconds_avg;
    high += section.seconds_max;
    if (section.seconds_max < shown_seconds) continue;
    text += row(section.name, width, core::with_commas(section.calls), section.seconds_min, section.seconds_avg,
                section.seconds_max, percent(section.seconds_avg));
  }
  // Sums of minima or maxima over sections are bounds, because each section's extreme may be on another rank.
  const auto rest = [wall](double used) { return std::max(0.0, wall - used); };
  text += row("other", width, "", rest(high), rest(mean), rest(low), percent(rest(mean)));
  text += row("wall time", width, "", wall, wall, wall, percent(wall));
  if (facts.computing_seconds <= 0) return text;
  const double seconds = facts.computing_seconds;
  std::string speed;
  if (facts.samples > 0) speed += core::format_metric(static_cast<double>(facts.samples) / seconds) + " sequences/s";
  if (facts.tokens > 0) {
    speed +=
        (speed.empty() ? "" : ", ") + core::format_metric(static_cast<double>(facts.tokens) / seconds) + " tokens/s";
  }
  if (facts.model_flops > 0) {
    const double rate = facts.model_flops / seconds;
    speed += (speed.empty() ? "model " : ", model ") + core::format_metric(rate) + "FLOP/s";
    if (facts.peak_gflops > 0) {
      speed += " (" + core::format_number(100.0 * rate / (facts.peak_gflops * 1e9 * facts.ranks), 3) + "% of peak)";
    }
  }
  if (!speed.empty()) text += "  " + speed + " in " + core::format_duration(seconds) + " of training\n";
  return text + padding_line(facts);
}

}  // namespace bert_hpc::app
