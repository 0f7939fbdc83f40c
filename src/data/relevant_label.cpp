#include "bert_hpc/data/relevant_label.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "bert_hpc/data/name_match.hpp"

namespace bert_hpc::data {
namespace {

constexpr std::array<std::string_view, 28> affirmative = {
    "relevant",  "entailment", "entail",     "entails",    "entailed", "yes",        "true",
    "positive",  "pos",        "match",      "matched",    "matching", "good",       "correct",
    "right",     "answer",     "answers",    "answerable", "similar",  "same",       "related",
    "duplicate", "paraphrase", "equivalent", "supported",  "supports", "acceptable", "helpful"};
constexpr std::array<std::string_view, 12> negative = {"no",        "not", "none",      "false",
                                                       "negative",  "neg", "wrong",     "contradiction",
                                                       "different", "bad", "unrelated", "refutes"};
constexpr std::array<std::string_view, 8> negations = {"not", "non", "no", "ir", "un", "in", "dis", "mis"};

/// The name in lower case without what stands between its words.
std::string joined_key(const std::string& name) {
  std::string key = label_key(name);
  std::erase_if(key, [](char c) { return c == '_' || c == '-' || c == ' '; });
  return key;
}

template <std::size_t n>
bool is_among(const std::array<std::string_view, n>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// 1: affirmative, −1: negative, 0: neither. A negation before an affirmative word is negative.
int meaning(std::string_view key) {
  if (is_among(affirmative, key)) return 1;
  if (is_among(negative, key)) return -1;
  for (const std::string_view negation : negations) {
    if (key.starts_with(negation) && is_among(affirmative, key.substr(negation.size()))) return -1;
  }
  return 0;
}

std::optional<long> number(std::string_view key) {
  long value = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), value);
  return error == std::errc{} && end == key.data() + key.size() ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<std::size_t> relevant_label(const std::vector<std::string>& names) {
  if (names.size() != 2) return std::nullopt;
  const std::string first = joined_key(names[0]), second = joined_key(names[1]);
  const std::optional<long> a = number(first), b = number(second);
  const long less = a && b ? *a : meaning(first), more = a && b ? *b : meaning(second);
  if (less == more) return std::nullopt;
  return less < more ? 1 : 0;
}

}  // namespace bert_hpc::data
