#include "bert_hpc/data/group_data.hpp"

#include <limits>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/json_bounded.hpp"

namespace bert_hpc::data {
namespace {

/// The texts of a row: shard_dataset::groups says what they are.
constexpr std::size_t query_id = 0, further_levels = 1, candidate_id = 2;

}  // namespace

std::string levels_to_json(const std::vector<std::int32_t>& levels) {
  return levels.empty() ? std::string() : core::json_text(nlohmann::json(levels));
}

bool GroupReader::next() {
  if (number_ + 2 >= std::ssize(reader_.groups())) return false;
  ++number_;
  group_.candidates.clear();
  for (std::int64_t sample = begin(); sample < end(); ++sample) {
    core::require(rows_.next() && rows_.sample() == sample, "each candidate is a sample");
    const std::span<const std::string> texts = rows_.texts();
    if (sample == begin()) {
      group_.id = texts[query_id];
      read_further_levels(texts[further_levels]);
    }
    group_.candidates.push_back(texts[candidate_id]);
  }
  return true;
}

void GroupReader::read_further_levels(const std::string& text) {
  group_.further_levels.clear();
  if (text.empty()) return;
  const nlohmann::json json = core::parse_bounded_json(text);
  bool good = json.is_array();
  for (const nlohmann::json& level : json) {
    good = good && level.is_number_integer() && level > 0 && level <= std::numeric_limits<std::int32_t>::max();
  }
  if (!good) {
    throw core::Error(core::ExitCode::data, rows_.file() + ": the further levels of row " +
                                                std::to_string(rows_.row()) +
                                                " are no JSON array of numbers from 1 on.");
  }
  group_.further_levels = json.get<std::vector<std::int32_t>>();
}

}  // namespace bert_hpc::data
