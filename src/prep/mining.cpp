#include "bert_hpc/prep/mining.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <unordered_map>
#include <utility>

#include "bert_hpc/config/toml_reader.hpp"
#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/data/search_results.hpp"
#include "bert_hpc/data/shard_reader.hpp"
#include "bert_hpc/data/shard_tokenizer.hpp"
#include "bert_hpc/data/shard_writer.hpp"
#include "bert_hpc/io/atomic_write.hpp"
#include "bert_hpc/prep/prepare.hpp"
#include "bert_hpc/tokenize/tokenizer_folder.hpp"
#include "ownership.hpp"
#include "staging.hpp"

namespace bert_hpc::prep {
namespace {

using core::Error;
using core::ExitCode;
namespace fs = std::filesystem;

void visit_keys(config::TomlKeys& keys, MiningConfig& c) {
  keys.table("mine");
  keys.key("shards", c.shards).required();
  keys.key("search", c.search).required();
  keys.key("corpus", c.corpus);
  keys.key("split", c.split, config::one_of({"train", "validation", "test"}));
  keys.key("negatives", c.rules.negatives, config::between(1, 1000));
  keys.key("skip", c.rules.skip, config::non_negative());
  keys.key("margin", c.rules.margin, config::between(-2, 2));
  keys.key("relative_margin", c.rules.relative_margin, config::between(0, 1));
  keys.key("max_score", c.rules.max_score);
  keys.table("output");
  keys.key("directory", c.directory).required();
  keys.key("shard_tokens", c.shard_tokens, config::between(1024, 1 << 30));
  keys.key("compression", c.compression, config::one_of({"none", "gzip"}));
}

std::unique_ptr<data::ShardReader> open_shards(const std::string& key, const std::vector<std::string>& paths,
                                               const char* task) {
  data::ShardReaderOptions options;
  options.name = "mine." + key;
  options.paths = paths;
  options.limits.task = tasks::find(task);
  options.limits.labels = options.limits.task->has_text_rows();
  options.source_index = true;
  return std::make_unique<data::ShardReader>(options);
}

/// Shards of the rows, which the task "embedding" has prepared: an anchor and a positive each.
std::unique_ptr<data::ShardReader> open_rows_of(const MiningConfig& config) {
  std::unique_ptr<data::ShardReader> reader = open_shards("shards", config.shards, "embedding");
  const auto refuse = [&](const std::string& file, const std::string& what) {
    throw Error(ExitCode::data, file + ": " + what + ": mine for rows of an anchor and a positive.");
  };
  if (!reader->values().empty()) {
    refuse(reader->files().front(), "its rows have scores, and mined negatives have none");
  }
  const std::span<const std::int64_t> groups = reader->groups();
  for (std::size_t g = 0; g + 1 < groups.size(); ++g) {
    if (groups[g + 1] - groups[g] > 1) continue;
    refuse(reader->location(groups[g]).file,
           "row " + std::to_string(reader->source_index()[static_cast<std::size_t>(groups[g])]) +
               " has one text, and its first negative would count as its positive");
  }
  return reader;
}

/// Shards of any task.
std::unique_ptr<data::ShardReader> open_corpus(const MiningConfig& config) {
  return open_shards("corpus", config.corpus.empty() ? config.shards : config.corpus, "masked_lm");
}

void require_searched(const std::string& search, const std::string& found, const data::ShardReader& reader,
                      const std::string& key) {
  if (found == core::hash_of_lines(reader.seals())) return;
  const std::string begin = search + ": the search was in " + (key == "shards" ? "queries" : "a corpus");
  if (found == "several") {
    throw Error(ExitCode::data, begin + " of several splits, and negatives are mined in one: search each by itself.");
  }
  throw Error(ExitCode::data, begin + " of other shards than [mine] " + key + " names (first " +
                                  reader.files().front() + "): embed these and search again.");
}

/// Results that belong to these shards.
data::SearchResults read_results(const MiningConfig& config, const data::ShardReader& rows,
                                 const data::ShardReader& corpus) {
  data::SearchResults results = data::read_search_results(config.search);
  require_searched(config.search, results.query_data, rows, "shards");
  require_searched(config.search, results.corpus_data, corpus, config.corpus.empty() ? "shards" : "corpus");
  const std::span<const std::int64_t> groups = rows.groups();
  const bool fits = std::equal(results.queries.begin(), results.queries.end(), groups.begin(), groups.end() - 1) &&
                    std::all_of(results.neighbours.begin(), results.neighbours.end(),
                                [&](std::int64_t n) { return n >= -1 && n < corpus.samples(); });
  if (!fits) throw Error(ExitCode::data, config.search + ": its queries and documents do not fit the shards.");
  return results;
}

/// Reads sequences one at a time.
class TokenReader {
 public:
  explicit TokenReader(data::ShardReader& reader) : reader_(reader) {}
  std::span<const std::int32_t> read(std::int64_t sequence) {
    const auto length = static_cast<std::size_t>(reader_.table().length(sequence));
    ids_.resize(length);
    types_.resize(length);
    reader_.read(sequence, ids_.data(), types_.data());
    return ids_;
  }

 private:
  data::ShardReader& reader_;
  std::vector<std::int32_t> ids_, types_;
};

std::vector<std::uint64_t> hashes_of(data::ShardReader& reader) {
  TokenReader tokens(reader);
  std::vector<std::uint64_t> hashes;
  for (std::int64_t s = 0; s < reader.samples(); ++s) {
    hashes.push_back(core::hash_of_ids(tokens.read(s)));
  }
  return hashes;
}

/// Texts that belong to an anchor in any row: its positives, and the anchor itself.
class KnownPositives {
 public:
  KnownPositives(std::span<const std::int64_t> groups, std::span<const std::uint64_t> hashes) {
    for (std::size_t g = 0; g + 1 < groups.size(); ++g) {
      const auto anchor = static_cast<std::size_t>(groups[g]);
      std::unordered_set<std::uint64_t>& texts = of_[hashes[anchor]];
      texts.insert({hashes[anchor], hashes[anchor + 1]});
    }
  }
  const std::unordered_set<std::uint64_t>& of(std::uint64_t anchor) const { return of_.at(anchor); }

 private:
  std::unordered_map<std::uint64_t, std::unordered_set<std::uint64_t>> of_;
};

class Mining {
 public:
  Mining(const MiningConfig& config, comm::Communicator& group, const std::function<void(const std::string&)>& say)
      : config_(config), group_(group), say_(say), staging_(config.directory) {}

  MiningSummary run() {
    agree(group_, [&] {
      rows_ = open_rows_of(config_);
      corpus_ = open_corpus(config_);
      if (!config_.corpus.empty()) data::require_alike(*rows_, *corpus_, false);
      tokenizer_ = data::tokenizer_text(rows_->files().front());
      refuse_foreign_files(config_.directory);
      choose(read_results(config_, *rows_, *corpus_));
    });
    std::vector<std::string> found;
    agree(group_, [&] {
      if (is_root()) found = staging_.make();
    });
    for (const std::string& line : found) report(line);
    try {
      write_shards();
      agree(group_, [&] {
        if (!is_root()) return;
        write_small_files();
        staging_.publish();
      });
    } catch (...) {
      if (is_root()) staging_.discard();
      throw;
    }
    return summary_;
  }

 private:
  bool is_root() const { return group_.rank() == 0; }
  void report(const std::string& line) const {
    if (is_root()) say_(line);
  }

  /// The negatives of each row.
  void choose(const data::SearchResults& results) {
    const std::vector<std::uint64_t> row_hashes = hashes_of(*rows_);
    const std::vector<std::uint64_t> own_corpus =
        config_.corpus.empty() ? std::vector<std::uint64_t>() : hashes_of(*corpus_);
    const std::vector<std::uint64_t>& hashes = config_.corpus.empty() ? row_hashes : own_corpus;
    const std::span<const std::int64_t> groups = rows_->groups();
    const KnownPositives positives(groups, row_hashes);
    const auto k = static_cast<std::size_t>(results.k);
    std::vector<FoundText> found;
    for (std::size_t g = 0; g + 1 < groups.size(); ++g) {
      found.clear();
      for (std::size_t i = g * k; i < (g + 1) * k && results.neighbours[i] >= 0; ++i) {
        const std::int64_t sequence = results.neighbours[i];
        // A row's own texts are its positive and its negatives of before.
        const bool is_own = config_.corpus.empty() && sequence >= groups[g] && sequence < groups[g + 1];
        if (!is_own) found.push_back({sequence, results.scores[i], hashes[static_cast<std::size_t>(sequence)]});
      }
      chosen_.push_back(mined(config_.rules, found, static_cast<double>(results.own_scores[g]),
                              positives.of(row_hashes[static_cast<std::size_t>(groups[g])])));
      ++summary_.rows;
      summary_.negatives += std::ssize(chosen_.back());
      summary_.rows_without += chosen_.back().empty() ? 1 : 0;
      tokens_.push_back(rows_->table().begin(groups[g + 1]) - rows_->table().begin(groups[g]));
      for (const std::int64_t sequence : chosen_.back()) tokens_.back() += corpus_->table().length(sequence);
      summary_.tokens += tokens_.back();
      summary_.sequences += groups[g + 1] - groups[g] + std::ssize(chosen_.back());
    }
    if (summary_.negatives > 0) return;
    throw Error(ExitCode::data, config_.search +
                                    ": no row gets a negative by [mine] margin, relative_margin, max_score and skip: "
                                    "loosen them, or search with a larger [search] top_k.");
  }

  /// Rows in shards of about equally many tokens; shard s is rank s mod ranks's.
  void write_shards() {
    summary_.shards = std::max<std::int64_t>(1, (summary_.tokens + config_.shard_tokens - 1) / config_.shard_tokens);
    std::size_t row = 0;
    std::int64_t done = 0;
    for (std::int64_t shard = 0; shard < summary_.shards; ++shard) {
      const std::size_t first = row;
      const std::int64_t end = summary_.tokens * (shard + 1) / summary_.shards;
      while (row < chosen_.size() && (done < end || shard + 1 == summary_.shards)) done += tokens_[row++];
      if (shard % group_.size() == group_.rank()) write_shard(shard, first, row);
    }
    group_.barrier();
  }

  void write_shard(std::int64_t shard, std::size_t first, std::size_t last) {
    char name[32];
    std::snprintf(name, sizeof name, "-%05lld.h5", static_cast<long long>(shard));
    data::ShardInfo info = rows_->info();
    info.has_texts = false;
    info.labelled = false;
    info.sequences = info.tokens = 0;  // not known
    data::ShardWriter writer(staging_.file(config_.split + name), info, false,
                             config_.compression == "none" ? data::Compression::none : data::Compression::gzip);
    if (!tokenizer_.empty()) writer.add_tokenizer(tokenizer_);
    TokenReader own(*rows_), others(*corpus_);
    for (std::size_t row = first; row < last; ++row) {
      const std::int64_t begin = rows_->groups()[row], end = rows_->groups()[row + 1];
      const std::int64_t source = rows_->source_index()[static_cast<std::size_t>(begin)];
      for (std::int64_t s = begin; s < end; ++s) {
        writer.add(own.read(s), {}, {}, source, {.starts_group = s == begin});
      }
      for (const std::int64_t s : chosen_[row]) writer.add(others.read(s), {}, {}, source);
    }
    writer.finish();
  }

  void write_small_files() const {
    // Files of the tokenizer that bert_hpc_prep has written beside the shards.
    for (const fs::directory_entry& entry :
         fs::directory_iterator(fs::path(rows_->files().front()).parent_path() / ".")) {
      const std::string name = entry.path().filename().string();
      if (name != "tokenizer_config.json" && !tokenize::is_tokenizer_file(name)) continue;
      fs::copy_file(entry.path(), staging_.file(name));
    }
    io::write_text_file(staging_.file("prep.toml"), resolved_toml(config_));
  }

  const MiningConfig& config_;
  comm::Communicator& group_;
  const std::function<void(const std::string&)>& say_;
  Staging staging_;
  std::unique_ptr<data::ShardReader> rows_, corpus_;
  std::string tokenizer_;                          // the specification's text; "": not known
  std::vector<std::vector<std::int64_t>> chosen_;  // of each row
  std::vector<std::int64_t> tokens_;               // of each row with its negatives
  MiningSummary summary_;
};

}  // namespace

std::vector<std::int64_t> mined(const MiningRules& rules, std::span<const FoundText> found, double own_score,
                                const std::unordered_set<std::uint64_t>& positives) {
  double most = rules.max_score.value_or(1e300);
  if (rules.margin) most = std::min(most, own_score - *rules.margin);
  if (rules.relative_margin) most = std::min(most, own_score - std::abs(own_score) * *rules.relative_margin);
  std::vector<std::int64_t> chosen;
  std::unordered_set<std::uint64_t> taken;
  std::int64_t skipped = 0;
  for (const FoundText& text : found) {
    if (std::ssize(chosen) == rules.negatives) break;
    if (positives.contains(text.text)) continue;
    if (skipped++ < rules.skip) continue;
    if (static_cast<double>(text.score) > most || !taken.insert(text.text).second) continue;
    chosen.push_back(text.sequence);
  }
  return chosen;
}

std::optional<MiningConfig> mining_config(const std::string& path, const std::vector<std::string>& overrides) {
  config::TomlReader reader(path, overrides);
  if (!reader.given("mine")) return std::nullopt;
  MiningConfig config;
  visit_keys(reader, config);
  const auto no_empty_name = [&](const char* key, const std::vector<std::string>& files) {
    if (std::find(files.begin(), files.end(), "") == files.end()) return;
    reader.problem(std::string("mine.") + key, std::string("[mine] ") + key + " has an empty file name: remove it.");
  };
  no_empty_name("shards", config.shards);
  no_empty_name("corpus", config.corpus);
  config::throw_if_any(reader.problems());
  return config;
}

std::string resolved_toml(MiningConfig config) {
  config::TomlWriter writer;
  visit_keys(writer, config);
  return writer.text();
}

void check_mining(const MiningConfig& config) {
  const auto rows = open_rows_of(config), corpus = open_corpus(config);
  read_results(config, *rows, *corpus);
  refuse_foreign_files(config.directory);
}

MiningSummary mine(const MiningConfig& config, comm::Communicator& group,
                   const std::function<void(const std::string&)>& say) {
  return Mining(config, group, say).run();
}

std::string describe(const MiningSummary& summary, const MiningConfig& config) {
  return "rows        " + core::with_commas(summary.rows) + ", " + core::with_commas(summary.rows_without) +
         " of them without a mined negative\n" + "negatives   " + core::with_commas(summary.negatives) + ", " +
         core::format_number(static_cast<double>(summary.negatives) / static_cast<double>(summary.rows), 3) +
         " a row\n" + "shards      " + core::counted(summary.sequences, "sequence") + ", " +
         core::counted(summary.tokens, "token") + ", " + core::counted(summary.shards, "shard") + " in " +
         config.directory + '\n';
}

}  // namespace bert_hpc::prep
