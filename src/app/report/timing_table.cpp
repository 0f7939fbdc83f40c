#include "app/report/timing_table.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {

namespace {

/// Sections that would round to 0 in the table are not listed.
constexpr double shown_seconds = 0.0005;

using Seconds = std::array<double, 3>;  // least, mean and most over ranks

/// A column before those of the shown clock, for the mean by the host's; of no width on CPUs.
std::string host_cell(bool on_device, const std::string& text) {
  if (!on_device) return {};
  char cell[32];
  std::snprintf(cell, sizeof cell, " %11s", text.c_str());
  return cell;
}

std::string to_milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", seconds);
  return text;
}

std::string row(const std::string& name, std::size_t width, const std::string& calls, const std::string& host,
                const Seconds& seconds, double percent) {
  char first[32], numbers[96];
  std::snprintf(first, sizeof first, " %12s", calls.c_str());
  std::snprintf(numbers, sizeof numbers, " %11.3f %11.3f %11.3f %8.1f\n", seconds[0], seconds[1], seconds[2], percent);
  return "  " + name + std::string(width - name.size(), ' ') + first + host + numbers;
}

std::string heading(std::size_t width, bool on_device) {
  char first[32], names[96];
  std::snprintf(first, sizeof first, " %12s", "calls");
  std::snprintf(names, sizeof names, " %11s %11s %11s %8s\n", "min s", "avg s", "max s", "% wall");
  return "  section" + std::string(width - 7, ' ') + first + host_cell(on_device, "host avg s") + names;
}

Seconds seconds_of(const io::TimerRow& section, bool on_device) {
  if (on_device) return {section.device_seconds_min, section.device_seconds_avg, section.device_seconds_max};
  return {section.seconds_min, section.seconds_avg, section.seconds_max};
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
  const bool on_device = std::any_of(facts.sections.begin(), facts.sections.end(),
                                     [](const io::TimerRow& section) { return section.has_device(); });
  std::string text = "Time by section, over " + core::counted(facts.ranks, "rank") +
                     (on_device ? " (by the GPU's clock; the host only launches and waits)" : "") + ":\n" +
                     heading(width, on_device);
  const double wall = facts.wall_seconds;
  const auto percent = [wall](double seconds) { return wall > 0 ? 100.0 * seconds / wall : 0.0; };
  const auto host_mean = [&](double seconds) { return host_cell(on_device, to_milliseconds(seconds)); };
  for (const io::TimerRow& section : facts.sections) {
    const Seconds seconds = seconds_of(section, on_device);
    if (std::max(seconds[2], section.seconds_max) < shown_seconds) continue;
    const std::string calls = section.calls > 0 ? core::with_commas(section.calls) : "";
    text += row(section.name, width, calls, host_mean(section.seconds_avg), seconds, percent(seconds[1]));
  }
  text += row("wall time", width, "", host_mean(wall), {wall, wall, wall}, percent(wall));
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
