// The list of scorers, and the text of results.
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/score/scorer.hpp"
#include "scorers.hpp"

namespace bert_hpc::score {
namespace {

/// As Python's json writes it: the shortest digits that give the same double, with a point or an exponent.
std::string number_text(const Number& number) {
  if (number.is_count) return std::to_string(std::llround(number.value));
  char text[32];
  const std::string digits(text, std::to_chars(text, text + sizeof text, number.value).ptr);
  return digits.find_first_of(".e") == std::string::npos ? digits + ".0" : digits;
}

}  // namespace

const std::vector<Scorer>& scorers() {
  static const std::vector<Scorer> all = [] {
    std::vector<Scorer> list = {squad_scorer, wikiqa_scorer, msmarco_scorer,
                                trec_scorer,  conll_scorer,  multilabel_scorer};
    list.insert(list.end(), glue_scorers.begin(), glue_scorers.end());
    return list;
  }();
  return all;
}

const Scorer& scorer(std::string_view name) {
  std::vector<std::string> names;
  for (const Scorer& one : scorers()) {
    if (one.name == name) return one;
    names.emplace_back(one.name);
  }
  throw core::Error(core::ExitCode::input, "there is no scorer '" + core::printable(name) + "'; the scorers are " +
                                               core::listed(names, "and") + '.');
}

std::string json_text(const Result& result) {
  std::string text = "{";
  for (const Number& number : result.numbers) {
    text += text.size() == 1 ? "\n" : ",\n";
    text += "  " + core::json_text(nlohmann::json(core::printable(number.name, number.name.size()))) + ": " +
            number_text(number);
  }
  return text + "\n}\n";
}

}  // namespace bert_hpc::score
