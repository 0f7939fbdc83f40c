#include "qrels.hpp"

#include <array>
#include <charconv>
#include <cmath>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/prep/readers/line_source.hpp"

namespace bert_hpc::prep {
namespace {

constexpr std::size_t columns = 4;
constexpr std::string_view blanks = " \t\r";

std::uint64_t key_of(std::string_view query, std::string_view passage) {
  std::string both(query);
  return core::fnv1a_64(both.append(1, '\n').append(passage));
}

/// The line's columns; the first that is empty ends them, and all are full only where there are no more.
std::array<std::string_view, columns + 1> columns_of(std::string_view line) {
  std::array<std::string_view, columns + 1> found{};
  for (std::string_view& column : found) {
    const std::size_t begin = line.find_first_not_of(blanks);
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(line.find_first_of(blanks, begin), line.size());
    column = line.substr(begin, end - begin);
    line.remove_prefix(end);
  }
  return found;
}

}  // namespace

bool parse_level(std::string_view text, std::int32_t& level) {
  constexpr double most = 1e6;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return false;
  if (!(value >= 0 && value <= most) || value != std::floor(value)) return false;
  level = static_cast<std::int32_t>(value);
  return true;
}

Qrels::Qrels(const std::string& file) : file_(file) {
  LineSource source(file);
  std::string_view line;
  std::int64_t number = 0;
  const auto fail = [&](const std::string& what) {
    throw core::Error(core::ExitCode::data, file + ", line " + std::to_string(number) + ": " + what);
  };
  while (source.next_filled_line(line, number)) {
    const auto [query, zero, passage, level, more] = columns_of(line);
    std::int32_t value = 0;
    const auto [end, error] = std::from_chars(level.data(), level.data() + level.size(), value);
    if (!more.empty() || level.empty() || error != std::errc{} || end != level.data() + level.size()) {
      fail('"' + core::printable(line, 60) +
           "\" is no judgement: it must be \"query 0 passage level\", between blanks, "
           "with a whole number as level.");
    }
    if (!indices_.emplace(key_of(query, passage), all_.size()).second) {
      fail("the query has this passage already; remove one.");
    }
    all_.push_back({core::fnv1a_64(query), std::max(value, 0), number});
  }
  if (all_.empty()) throw core::Error(core::ExitCode::data, file + ": it has no judgements.");
}

std::optional<std::size_t> Qrels::find(std::string_view query, std::string_view passage) const {
  const auto found = indices_.find(key_of(query, passage));
  if (found == indices_.end()) return std::nullopt;
  return found->second;
}

}  // namespace bert_hpc::prep
