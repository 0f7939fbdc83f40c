#include "app/search_run.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/engine/corpus_search.hpp"
#include "app/engine/precision.hpp"
#include "app/engine/search_sets.hpp"
#include "app/report/describe.hpp"
#include "app/report/results.hpp"
#include "app/report/run_warnings.hpp"
#include "app/report/search_file.hpp"
#include "app/run/collective.hpp"
#include "app/run_start.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/objectives/ranking_files.hpp"
#include "bert_hpc/score/ranking.hpp"

namespace bert_hpc::app {
namespace {

using core::Error;
using core::ExitCode;

/// Whether rows of pairs say what is relevant: their positives are among the documents.
bool says_relevance(const SearchSets& sets) {
  return !sets.other && sets.queries.reader->samples() > std::ssize(sets.queries.roles.queries);
}

/// On rank 0: the relevance that judgements state, or else rows of pairs. Warns of documents that the corpus lacks.
std::vector<QueryLevels> levels_of(const RunContext& context, const SearchSets& sets) {
  const std::optional<std::string>& path = context.input.search.qrels;
  const TextRoles& queries = sets.queries.roles;
  if (!path) {
    if (!says_relevance(sets)) return {};
    return levels_of_rows(sets.queries.reader->source_index(), queries);
  }
  const score::Judgements judgements = score::read_judgements(*path);
  const NamedTexts names = named(sets.queries, queries.queries),
                   documents = named(sets.corpus(), sets.corpus().roles.documents);
  JudgedQueries judged = levels_of_judgements(judgements, names, documents);
  const std::string begin = *path + ": none of its ";
  if (judged.queries == 0) {
    throw Error(ExitCode::data, begin + core::counted(std::ssize(judgements), "query", "queries") +
                                    " is among those of [search] queries, whose first one is \"" + names.name(0) +
                                    "\": name the judgements of these queries, or prepare the queries with their ids "
                                    "([source] id of bert_hpc_prep's input).");
  }
  if (judged.relevant == 0) {
    throw Error(ExitCode::data,
                begin + "relevant documents is in [search] corpus, whose first one is \"" + documents.name(0) +
                    "\": name the judgements of this corpus, or prepare it with its ids ([source] id of "
                    "bert_hpc_prep's input).");
  }
  if (judged.absent > 0) {
    context.log.warning(*path + ": " + core::counted(judged.absent, "relevant document is", "relevant documents are") +
                        " not in the corpus, and count as not found (the first is " + judged.first_absent + ").");
  }
  return std::move(judged.levels);
}

/// Reads rows in parts and calls take(first, rows).
void each_part(EmbeddingRows& rows, std::span<const std::int64_t> sequences,
               const std::function<void(std::int64_t, std::span<float>)>& take) {
  std::vector<float> part;
  for (std::int64_t begin = 0; begin < std::ssize(sequences); begin += search_block) {
    const std::int64_t count = std::min(search_block, std::ssize(sequences) - begin);
    part.resize(static_cast<std::size_t>(count * rows.columns()));
    rows.read(sequences.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)), part);
    take(begin, part);
  }
}

/// Collective. Rank 0 reads the queries' embeddings and gives them to all ranks.
void load_queries(const RunContext& context, SearchSets& sets, bool normalizes, core::Tensor<float> to) {
  collectively(context.world, [&] {
    if (context.world.rank() != 0) return;
    EmbeddingRows rows(*sets.queries.reader, sets.hdf5, normalizes);
    each_part(rows, sets.queries.roles.queries, [&](std::int64_t first, std::span<float> part) {
      core::copy_to_device(part.data(), to.row(first), part.size_bytes());
    });
  });
  constexpr std::int64_t at_once = std::int64_t{1} << 26;  // floats of a message
  for (std::int64_t begin = 0; begin < to.size(); begin += at_once) {
    const std::int64_t count = std::min(at_once, to.size() - begin);
    context.world.broadcast(std::span(to.data + begin, static_cast<std::size_t>(count)), 0);
  }
}

/// On rank 0: of each query the score of the second text of its row; NaN without one.
std::vector<float> scores_in_rows(SearchSets& sets, bool normalizes) {
  const EmbeddedSet& set = sets.queries;
  const std::vector<std::size_t> numbers = paired_queries(set.reader->source_index(), set.roles);
  std::vector<std::int64_t> firsts, seconds;
  for (const std::size_t q : numbers) {
    firsts.push_back(set.roles.queries[q]);
    seconds.push_back(set.roles.queries[q] + 1);
  }
  std::vector<float> scores(set.roles.queries.size(), std::numeric_limits<float>::quiet_NaN());
  EmbeddingRows rows(*set.reader, sets.hdf5, normalizes), other_rows(*set.reader, sets.hdf5, normalizes);
  const auto columns = static_cast<std::size_t>(rows.columns());
  std::vector<float> others;
  each_part(rows, firsts, [&](std::int64_t begin, std::span<float> part) {
    others.resize(part.size());
    other_rows.read(std::span(seconds).subspan(static_cast<std::size_t>(begin), part.size() / columns), others);
    for (std::size_t i = 0; i < part.size() / columns; ++i) {
      double sum = 0;
      for (std::size_t j = i * columns; j < (i + 1) * columns; ++j) sum += static_cast<double>(part[j]) * others[j];
      scores[numbers[static_cast<std::size_t>(begin) + i]] = static_cast<float>(sum);
    }
  });
  return scores;
}

/// Collective. Compares all documents; false if the run was asked to stop.
bool compare(const RunContext& context, CorpusSearch& search, std::int64_t documents) {
  const int rank = context.world.rank(), ranks = context.world.size();
  const auto count = [&](int r) {
    const BlockRange blocks = blocks_of_rank(documents, r, ranks);
    return blocks.last - blocks.first;
  };
  std::int64_t rounds = 0;
  for (int r = 0; r < ranks; ++r) rounds = std::max(rounds, count(r));
  const std::int64_t first = blocks_of_rank(documents, rank, ranks).first;
  const double begin = context.seconds();
  double last = begin;
  for (std::int64_t round = 0; round < rounds; ++round) {
    if (context.world.any(context.requests.stop())) return false;
    if (round < count(rank)) search.add(first + round, round + 1 < count(rank) ? first + round + 1 : -1);
    constexpr double pause = 60;
    const double now = context.seconds();
    if (now - last < pause) continue;
    last = now;
    const auto done = static_cast<double>(round + 1) / static_cast<double>(rounds);
    context.log.info("search: " + core::format_number(100 * done, 3) + "% of the corpus, " +
                     core::format_duration((now - begin) * (1 - done) / done) + " left");
  }
  return true;
}

/// On rank 0: run.trec, and the scores of judged queries if there are levels.
SearchScores write_ranking(const RunContext& context, const SearchSets& sets, const FoundDocuments& found,
                           const std::vector<QueryLevels>& levels) {
  const NamedTexts queries = named(sets.queries, sets.queries.roles.queries),
                   documents = named(sets.corpus(), sets.corpus().roles.documents);
  const auto k = static_cast<std::size_t>(context.input.search.top_k);
  objectives::TrecRun run(context.input.run.directory);
  SearchScores scores;
  std::vector<std::string> names;
  std::vector<score::RankedCandidate> ranked;
  std::vector<std::int64_t> ranked_levels;
  for (std::int64_t q = 0; q < queries.count; ++q) {
    const std::size_t begin = static_cast<std::size_t>(q) * k;
    const auto end = std::find(found.numbers.begin() + static_cast<std::ptrdiff_t>(begin),
                               found.numbers.begin() + static_cast<std::ptrdiff_t>(begin + k), -1);
    const auto count = static_cast<std::size_t>(end - found.numbers.begin()) - begin;
    names.clear();
    for (std::size_t i = 0; i < count; ++i) names.push_back(documents.name(found.numbers[begin + i]));
    ranked.clear();
    const QueryLevels* const of_query = levels.empty() ? nullptr : &levels[static_cast<std::size_t>(q)];
    for (std::size_t i = 0; i < count; ++i) {
      ranked.push_back({.id = names[i],
                        .score = found.scores[begin + i],
                        .level = of_query == nullptr ? 0 : of_query->level_of(found.numbers[begin + i])});
    }
    score::rank_candidates(ranked);
    const std::string query = queries.name(q);
    for (std::size_t i = 0; i < count; ++i) {
      run.add(query, ranked[i].id, static_cast<std::int64_t>(i) + 1, ranked[i].score);
    }
    if (of_query == nullptr || !of_query->is_judged) continue;
    ranked_levels.clear();
    for (const score::RankedCandidate& one : ranked) ranked_levels.push_back(one.level);
    scores.add(ranked_levels, of_query->ideal);
  }
  run.close();
  return scores;
}

std::string scores_line(const SearchScores& scores, std::int64_t top_k) {
  std::string line = core::counted(static_cast<std::int64_t>(scores.queries), "judged query", "judged queries");
  const std::vector<metrics::Metric>& labels = metrics::rankings().metrics;
  for (const auto& [name, value] : scores.means(top_k)) {
    const auto label = std::find_if(labels.begin(), labels.end(), [&](const auto& one) { return one.name == name; });
    line += std::string(", ") + label->label + ' ' + core::format_number(value, 4);
  }
  return line;
}

void describe(const RunContext& context, const SearchSets& sets, const SearchSize& size) {
  BannerFacts facts = start_facts(context);
  const config::Search& search = context.input.search;
  facts.kernels =
      "matmul: " +
      ops::make_matrix_product(context.input.run.kernels, product_settings(precision_of(context.input), true))->name();
  facts.memory = CorpusSearch::memory(size);
  facts.more = {{"embeddings", core::printable(sets.queries.reader->info().embedded)},
                {"queries", core::with_commas(size.queries)},
                {"corpus", core::counted(size.documents, "document") + " of " + core::counted(size.columns, "column")},
                {"search", (search.similarity == "dot" ? "dot products, " : "cosines, ") +
                               core::counted(size.top_k, "document") + " of each query"}};
  context.log.info(banner(facts));
  for (const std::string& warning : placement_warnings(facts.ranks)) context.log.warning(warning);
}

void search(const RunContext& context, SearchSets& sets, const SearchSize& size, const std::vector<QueryLevels>& levels,
            Results& results) {
  const config::Config& input = context.input;
  const bool normalizes = input.search.similarity == "cosine";
  const TextRoles& corpus = sets.corpus().roles;
  EmbeddingRows rows(*sets.corpus().reader, sets.hdf5, normalizes);
  CorpusSearch engine(size, rows, corpus.documents, input.run.kernels, product_settings(precision_of(input), true));
  load_queries(context, sets, normalizes, engine.queries());
  const double begin = context.seconds();
  if (!compare(context, engine, size.documents)) {
    context.log.info("stopped " + agreed_stop_reason(context) + " without results: the same command starts over");
    results.stop();
    throw Stop{ExitCode::stopped};
  }
  FoundDocuments found = engine.found();
  merge_on_root(context.world, size.top_k, found);
  const double seconds = context.seconds() - begin;
  SearchScores scores;
  collectively(context.world, [&] {
    if (context.world.rank() != 0) return;
    results.require_lock();
    scores = write_ranking(context, sets, found, levels);
    const SearchFacts facts{.similarity = input.search.similarity,
                            .query_data = sets.queries.data_hash,
                            .corpus_data = sets.corpus().data_hash};
    write_search_file(input.run.directory + "/search.h5", facts, sets.queries.roles.queries, corpus.documents, found,
                      scores_in_rows(sets, normalizes));
  });
  const double products = static_cast<double>(size.queries) * static_cast<double>(size.documents);
  context.log.info("search: " + core::counted(size.queries, "query", "queries") + " in " +
                   core::counted(size.documents, "document") + " in " + core::format_duration(seconds) + ", " +
                   core::format_metric(static_cast<double>(size.queries) / seconds) + " queries/s, " +
                   core::format_metric(2 * products * static_cast<double>(size.columns) / seconds) + "FLOP/s");
  if (scores.queries > 0) {
    io::EvaluationRow row;
    row.loss = std::numeric_limits<double>::quiet_NaN();
    row.metrics = scores.means(size.top_k);
    results.record_evaluation("test", row);
    context.log.info("search: " + scores_line(scores, size.top_k));
  }
  results.record_ranks(context, context.device.name, CorpusSearch::memory(size));
  results.finish(
      {{"samples", static_cast<double>(size.queries)}, {"search_seconds", seconds}, {"seconds", context.seconds()}});
  const std::string& folder = input.run.directory;
  context.log.info("results in " + folder + "/metrics.h5, " + folder + "/run.trec and " + folder + "/search.h5 after " +
                   core::format_duration(context.seconds()));
}

}  // namespace

void run_search(const RunContext& context) {
  SearchSets sets;
  open_sets(context.input.search, context.world, sets);
  const SearchSize size{.queries = std::ssize(sets.queries.roles.queries),
                        .documents = std::ssize(sets.corpus().roles.documents),
                        .columns = sets.queries.reader->info().columns,
                        .top_k = context.input.search.top_k};
  describe(context, sets, size);
  std::vector<QueryLevels> levels;  // on rank 0
  collectively(context.world, [&] {
    if (context.world.rank() == 0) levels = levels_of(context, sets);
  });
  if (context.invocation.validate) {
    note_directory(context.log, directory_note(context));
    context.log.info(valid_input);
    return;
  }
  leave_if_asked(context);
  const std::unique_ptr<io::RunLock> lock = lock_run_directory(context);
  Results results(context, lock.get(), {}, sets.hdf5);
  alone_ends_all(context.world.rank(), context.failure, [&] { search(context, sets, size, levels, results); });
}

}  // namespace bert_hpc::app
