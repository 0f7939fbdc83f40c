#include "bert_hpc/config/walltime.hpp"

#include <charconv>
#include <cstdint>
#include <vector>

namespace bert_hpc::config {
namespace {

/// Whole numbers separated by colons; empty for any other text.
std::vector<std::int64_t> numbers_of(const std::string& text) {
  constexpr std::int64_t most = 1'000'000'000;
  std::vector<std::int64_t> numbers;
  const char *next = text.data(), *const end = text.data() + text.size();
  for (;;) {
    std::int64_t number = 0;
    const auto [stop, problem] = std::from_chars(next, end, number);
    if (problem != std::errc{} || number < 0 || number > most) return {};
    numbers.push_back(number);
    if (stop == end) return numbers;
    if (*stop != ':') return {};
    next = stop + 1;
  }
}

}  // namespace

std::optional<double> walltime_seconds(const std::string& text) {
  const std::size_t dash = text.find('-');
  const bool has_days = dash != std::string::npos;
  std::vector<std::int64_t> days = has_days ? numbers_of(text.substr(0, dash)) : std::vector<std::int64_t>{0};
  std::vector<std::int64_t> parts = numbers_of(has_days ? text.substr(dash + 1) : text);
  if (days.size() != 1 || parts.empty() || parts.size() > 3) return std::nullopt;
  // After days come hours; without days, the last number but one is minutes.
  if (has_days) parts.resize(3, 0);
  if (!has_days && parts.size() < 3) parts.insert(parts.begin(), 0);
  parts.resize(3, 0);
  const double seconds = static_cast<double>(days[0]) * 86400 + static_cast<double>(parts[0]) * 3600 +
                         static_cast<double>(parts[1]) * 60 + static_cast<double>(parts[2]);
  if (!(seconds > 0)) return std::nullopt;
  return seconds;
}

}  // namespace bert_hpc::config
