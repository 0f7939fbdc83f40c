#include "app/engine/search_texts.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/score/ranking.hpp"

namespace bert_hpc::app {
namespace {

/// Whether a sequence is the first of its row.
bool begins_row(std::span<const std::int64_t> rows, std::size_t s) {
  return s == 0 || rows[s] != rows[s - 1];
}

}  // namespace

TextRoles text_roles(std::span<const std::int64_t> rows, bool parts_texts, const std::string& name) {
  TextRoles roles;
  for (std::size_t s = 0; s < rows.size(); ++s) {
    const bool begins = begins_row(rows, s), is_alone = begins && (s + 1 == rows.size() || rows[s] != rows[s + 1]);
    if (!is_alone && !parts_texts) {
      throw core::Error(core::ExitCode::data,
                        name + ": row " + std::to_string(rows[s]) +
                            " of the text was cut into windows, and a search takes one embedding of a text: prepare "
                            "the text without [tokenizer] doc_stride, for instance for the task \"embedding\".");
    }
    if (begins) roles.queries.push_back(static_cast<std::int64_t>(s));
    if (is_alone || !begins) roles.documents.push_back(static_cast<std::int64_t>(s));
  }
  return roles;
}

std::int64_t index_in_row(std::span<const std::int64_t> rows, std::int64_t sequence) {
  std::int64_t index = 0;
  while (!begins_row(rows, static_cast<std::size_t>(sequence - index))) ++index;
  return index;
}

std::string text_name(const data::NameList& names, std::span<const std::int64_t> rows, std::int64_t sequence) {
  std::string name =
      names.count() > 0 ? std::string(names[sequence]) : std::to_string(rows[static_cast<std::size_t>(sequence)]);
  const std::int64_t index = index_in_row(rows, sequence);
  if (index > 1) name += '/' + std::to_string(index);
  return name;
}

std::int64_t QueryLevels::level_of(std::int32_t number) const {
  const auto found = std::lower_bound(documents.begin(), documents.end(), number,
                                      [](const Document& one, std::int32_t other) { return one.number < other; });
  return found == documents.end() || found->number != number ? 0 : found->level;
}

std::vector<std::size_t> paired_queries(std::span<const std::int64_t> rows, const TextRoles& roles) {
  std::vector<std::size_t> numbers;
  for (std::size_t q = 0; q < roles.queries.size(); ++q) {
    const std::int64_t second = roles.queries[q] + 1;
    if (second < std::ssize(rows) && !begins_row(rows, static_cast<std::size_t>(second))) numbers.push_back(q);
  }
  return numbers;
}

std::vector<QueryLevels> levels_of_rows(std::span<const std::int64_t> rows, const TextRoles& roles) {
  std::vector<QueryLevels> levels(roles.queries.size());
  std::size_t document = 0;
  for (const std::size_t q : paired_queries(rows, roles)) {
    const std::int64_t positive = roles.queries[q] + 1;
    while (document < roles.documents.size() && roles.documents[document] < positive) ++document;
    levels[q] = {.documents = {{static_cast<std::int32_t>(document), 1}}, .ideal = {1}, .is_judged = true};
  }
  return levels;
}

JudgedQueries levels_of_judgements(const score::Judgements& judgements, const NamedTexts& queries,
                                   const NamedTexts& documents) {
  JudgedQueries all{.levels = std::vector<QueryLevels>(static_cast<std::size_t>(queries.count))};
  std::unordered_map<std::string_view, std::int32_t> numbers;  // of judged documents; −1: not of the corpus
  std::vector<score::Judgements::const_iterator> judged;       // of each query
  for (std::int64_t q = 0; q < queries.count; ++q) {
    judged.push_back(judgements.find(queries.name(q)));
    if (judged.back() == judgements.end()) continue;
    for (const auto& [document, level] : judged.back()->second) numbers.emplace(document, -1);
  }
  for (std::int64_t d = 0; d < documents.count; ++d) {
    const auto found = numbers.find(documents.name(d));
    if (found != numbers.end()) found->second = static_cast<std::int32_t>(d);
  }
  for (std::size_t q = 0; q < judged.size(); ++q) {
    if (judged[q] == judgements.end()) continue;
    QueryLevels& query = all.levels[q];
    query.is_judged = true;
    ++all.queries;
    for (const auto& [document, level] : judged[q]->second) {
      query.ideal.push_back(level);
      const std::int32_t number = numbers.at(document);
      if (number >= 0) {
        query.documents.push_back({number, level});
        if (level > 0) ++all.relevant;
      } else if (level > 0 && all.absent++ == 0) {
        all.first_absent = '"' + document + "\" of query \"" + judged[q]->first + '"';
      }
    }
    std::sort(query.ideal.rbegin(), query.ideal.rend());
    std::sort(query.documents.begin(), query.documents.end(),
              [](const auto& a, const auto& b) { return a.number < b.number; });
  }
  return all;
}

void SearchScores::add(std::span<const std::int64_t> levels, std::span<const std::int64_t> ideal) {
  const auto relevant = static_cast<double>(std::count_if(ideal.begin(), ideal.end(), [](auto l) { return l > 0; }));
  queries += 1;
  average_precision += score::average_precision(levels, relevant);
  reciprocal_rank += score::reciprocal_rank(levels);
  reciprocal_rank_at_10 += score::reciprocal_rank(levels, 10);
  gain_at_10 += score::normalized_gain(levels, ideal, 10);
  first_right += !levels.empty() && levels.front() > 0 ? 1 : 0;
  recall_at_10 += score::recall_at(levels, relevant, 10);
  recall_at_100 += score::recall_at(levels, relevant, 100);
}

std::vector<std::pair<std::string, double>> SearchScores::means(std::int64_t top_k) const {
  struct Number {
    const char* name;
    double sum;
    std::int64_t documents;  // that it looks at; 0: all
  };
  const Number numbers[] = {{"map", average_precision, 0},
                            {"mrr", reciprocal_rank, 0},
                            {"mrr_at_10", reciprocal_rank_at_10, 10},
                            {"ndcg_at_10", gain_at_10, 10},
                            {"precision_at_1", first_right, 1},
                            {"recall_at_10", recall_at_10, 10},
                            {"recall_at_100", recall_at_100, 100}};
  std::vector<std::pair<std::string, double>> means;
  for (const Number& number : numbers) {
    if (number.documents <= top_k) means.emplace_back(number.name, number.sum / queries);
  }
  return means;
}

}  // namespace bert_hpc::app
