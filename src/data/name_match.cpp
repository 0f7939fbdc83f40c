#include "bert_hpc/data/name_match.hpp"

#include <string_view>
#include <unordered_map>

#include "bert_hpc/tokenize/spelling.hpp"

namespace bert_hpc::data {
namespace {

/// Names by a key; -1 for a key of several names.
using Index = std::unordered_map<std::string, std::int64_t>;

void add(Index& index, const std::string& key, std::size_t i) {
  const auto [found, added] = index.try_emplace(key, static_cast<std::int64_t>(i));
  if (!added) found->second = -1;
}

}  // namespace

std::string label_key(const std::string& name) {
  std::string key = tokenize::spelling_key(name);
  constexpr std::string_view prefix = "label_";
  const bool numbered = key.starts_with(prefix) && key.size() > prefix.size() &&
                        key.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
  if (numbered) return key.substr(prefix.size());
  const std::size_t point = key.find_first_not_of("0123456789");
  const bool is_whole = point != std::string::npos && point > 0 && key[point] == '.' && point + 1 < key.size() &&
                        key.find_first_not_of('0', point + 1) == std::string::npos;
  return is_whole ? key.substr(0, point) : key;
}

bool NameMatch::in_order() const {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

std::optional<NameMatch> match_names(const std::vector<std::string>& names, const std::vector<std::string>& others) {
  if (names.size() > others.size()) return std::nullopt;
  Index exact;
  for (std::size_t i = 0; i < others.size(); ++i) add(exact, others[i], i);
  NameMatch match;
  std::vector<bool> taken(others.size(), false);
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = exact.find(names[i]);
    const bool has = found != exact.end() && found->second >= 0 && !taken[static_cast<std::size_t>(found->second)];
    match.indices.push_back(has ? found->second : -1);
    if (has) taken[static_cast<std::size_t>(found->second)] = true;
    if (!has) left.push_back(i);
  }
  if (left.empty()) return match;
  match.exact = false;
  Index spelled;
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (!taken[i]) add(spelled, label_key(others[i]), i);
  }
  for (const std::size_t i : left) {
    const auto found = spelled.find(label_key(names[i]));
    if (found == spelled.end() || found->second < 0) return std::nullopt;
    match.indices[i] = found->second;
    found->second = -1;
  }
  return match;
}

}  // namespace bert_hpc::data
