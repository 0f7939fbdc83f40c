// What a search compares: which sequences of files of embeddings are queries and which are documents, how they are
// called, and which documents are relevant to a query. All functions are pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/data/embedding_names.hpp"
#include "bert_hpc/score/qrels.hpp"

namespace bert_hpc::app {

/// Sequences of a data set of embeddings.
struct TextRoles {
  std::vector<std::int64_t> queries;    ///< the first text of each row
  std::vector<std::int64_t> documents;  ///< all other texts, and the only one of a row
};

/// rows: the source index of each sequence, whose neighbours with the same one are a row. Rows of several sequences are
/// texts of the task "embedding" if `parts_texts`, otherwise windows of a text. Throws Error(data) on windows; `name`
/// is what the message calls the data set.
TextRoles text_roles(std::span<const std::int64_t> rows, bool parts_texts, const std::string& name);

/// Number of a sequence among those of its row.
std::int64_t index_in_row(std::span<const std::int64_t> rows, std::int64_t sequence);

/// Names of sequences as files of rankings have them: that of the row, or the row's number; behind it "/2", "/3", … for
/// the texts of a row after the second.
std::string text_name(const data::NameList& names, std::span<const std::int64_t> rows, std::int64_t sequence);

/// The relevance of documents to a query.
struct QueryLevels {
  struct Document {
    std::int32_t number = 0;  ///< of a document
    std::int64_t level = 0;
  };
  std::vector<Document> documents;  ///< of the corpus, by number
  std::vector<std::int64_t> ideal;  ///< all levels, descending, also of documents that the corpus lacks
  bool is_judged = false;

  /// Level of a document; 0 if it is not stated.
  std::int64_t level_of(std::int32_t number) const;
};

/// Numbers, among roles.queries, of those whose row has a second text.
std::vector<std::size_t> paired_queries(std::span<const std::int64_t> rows, const TextRoles& roles);

/// Levels of a data set that has both queries and documents: the second text of a row is relevant to the first. A row
/// of one text has none.
std::vector<QueryLevels> levels_of_rows(std::span<const std::int64_t> rows, const TextRoles& roles);

struct JudgedQueries {
  std::vector<QueryLevels> levels;        ///< of each query
  std::int64_t queries = 0;               ///< of the search that are judged
  std::int64_t relevant = 0, absent = 0;  ///< judgements of relevant documents that the corpus has, and that it lacks
  std::string first_absent{};             ///< of the latter, with its query
};
/// Texts of a search and their names by number.
struct NamedTexts {
  std::int64_t count = 0;
  std::function<std::string(std::int64_t number)> name{};
};
/// Levels of each query according to the judgements.
JudgedQueries levels_of_judgements(const score::Judgements& judgements, const NamedTexts& queries,
                                   const NamedTexts& documents);

/// Sums over judged queries of the numbers that trec_eval gives.
struct SearchScores {
  double queries = 0, average_precision = 0, reciprocal_rank = 0, reciprocal_rank_at_10 = 0, gain_at_10 = 0;
  double first_right = 0, recall_at_10 = 0, recall_at_100 = 0;

  /// levels: of the documents by rank; ideal: as QueryLevels has it.
  void add(std::span<const std::int64_t> levels, std::span<const std::int64_t> ideal);
  /// Name and mean of each number that rankings of `top_k` documents have.
  std::vector<std::pair<std::string, double>> means(std::int64_t top_k) const;
};

}  // namespace bert_hpc::app
