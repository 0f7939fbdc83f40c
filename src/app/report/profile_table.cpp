#include "app/report/profile_table.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <vector>

#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {
namespace {

constexpr std::size_t shown_rows = 12;
constexpr std::string_view common_prefix = "bert_hpc::ops::";

std::string short_name(const io::ProfileRow& row) {
  std::string_view name = row.name;
  if (name.starts_with(common_prefix)) name.remove_prefix(common_prefix.size());
  return std::string(name) + (row.section.empty() ? "" : ", " + row.section);
}

/// 10⁹ per second of one rank; "" if it is not known.
std::string rate(double work, const io::ProfileRow& row, std::int64_t ranks) {
  if (std::isnan(work) || work <= 0 || !(row.seconds_avg > 0)) return "";
  char text[40];
  std::snprintf(text, sizeof text, "%.2f", 1e-9 * work / static_cast<double>(ranks) / row.seconds_avg);
  return text;
}

std::string line(const std::string& name, std::size_t width, const std::string& calls, double seconds, double all,
                 const std::string& flops, const std::string& bytes) {
  char numbers[160];
  std::snprintf(numbers, sizeof numbers, " %12s %10.4f %7.1f %10s %10s", calls.c_str(), seconds,
                all > 0 ? 100.0 * seconds / all : 0.0, flops.c_str(), bytes.c_str());
  std::string text = "  " + name + std::string(width - name.size(), ' ') + numbers;
  text.erase(text.find_last_not_of(' ') + 1);
  return text + '\n';
}

std::string heading(const io::Profile& profile, std::size_t width) {
  const std::string last = core::with_commas(profile.first_step + profile.steps - 1);
  const std::string which =
      profile.steps == 1 ? "step " + last : "steps " + core::with_commas(profile.first_step) + " to " + last;
  char numbers[160];
  std::snprintf(numbers, sizeof numbers, " %12s %10s %7s %10s %10s\n", "calls", "avg s", "% time", "GFLOP/s", "GB/s");
  return "Profile of " + which + ", over " + core::counted(profile.ranks, "rank") + ":\n  call" +
         std::string(width - 4, ' ') + numbers;
}

}  // namespace

std::string profile_table(const io::Profile& profile, const std::string& path) {
  std::vector<const io::ProfileRow*> timed;
  for (const io::ProfileRow& row : profile.rows) {
    if (!std::isnan(row.seconds_avg)) timed.push_back(&row);
  }
  const std::size_t shown = std::min(shown_rows, timed.size());
  std::size_t width = 17;
  for (std::size_t i = 0; i < shown; ++i) width = std::max(width, short_name(*timed[i]).size());
  std::string text = heading(profile, width);
  std::int64_t other_calls = 0;
  double others = 0, rest = profile.seconds;
  for (std::size_t i = 0; i < timed.size(); ++i) {
    const io::ProfileRow& row = *timed[i];
    rest -= row.seconds_avg;
    if (i < shown) {
      text += line(short_name(row), width, core::with_commas(row.calls), row.seconds_avg, profile.seconds,
                   rate(row.flops, row, profile.ranks), rate(row.bytes, row, profile.ranks));
    } else {
      other_calls += row.calls;
      others += row.seconds_avg;
    }
  }
  if (timed.size() > shown) {
    text += line("other calls", width, core::with_commas(other_calls), others, profile.seconds, "", "");
  }
  text += line("outside of calls", width, "", std::max(0.0, rest), profile.seconds, "", "");
  text += line("time of the steps", width, "", profile.seconds, profile.seconds, "", "");
  char speed[160];
  std::snprintf(speed, sizeof speed, "  %.3g steps/s; measuring took %.2g%% of the time; all rows in %s",
                profile.seconds > 0 ? static_cast<double>(profile.steps) / profile.seconds : 0.0,
                profile.seconds > 0 ? 100.0 * profile.cost / profile.seconds : 0.0, path.c_str());
  return text + speed;
}

}  // namespace bert_hpc::app
