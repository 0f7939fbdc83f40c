// Hard negatives: the texts that a search (mode "search") finds near an anchor although they do not belong to it,
// appended to the rows of shards of the task "embedding". No text is read: shards are made of shards.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/error.hpp"

namespace bert_hpc::prep {

/// Which of the documents that a search found for an anchor become negatives.
struct MiningRules {
  std::int64_t negatives = 5;      ///< of each row, at most
  std::int64_t skip = 0;           ///< so many of the nearest are left out: some of them may be unknown positives
  std::optional<double> margin{};  ///< a negative's score is at most the positive's less this
  std::optional<double> relative_margin{};  ///< and at most the positive's less this share of its magnitude
  std::optional<double> max_score{};        ///< and at most this
};

/// A document that a search found.
struct FoundText {
  std::int64_t sequence = 0;
  float score = 0;
  std::uint64_t text = 0;  ///< hash of its tokens
};

/// The documents that become negatives, in the order of `found` (by falling score). `own_score`: of anchor and
/// positive. `positives`: hashes of the texts that belong to the anchor, itself among them. Each text is taken once.
/// Pure.
std::vector<std::int64_t> mined(const MiningRules& rules, std::span<const FoundText> found, double own_score,
                                const std::unordered_set<std::uint64_t>& positives);

struct MiningConfig {
  std::vector<std::string> shards;  ///< of the task "embedding", whose rows get negatives, or patterns
  std::vector<std::string> corpus;  ///< shards of the documents; empty: `shards`
  std::string search;               ///< a file search.h5
  std::string split = "train";      ///< name of the shards that are written: "train", "validation", "test"
  MiningRules rules;
  std::string directory;                 ///< [output]
  std::int64_t shard_tokens = 16 << 20;  ///< as OutputConfig has it
  std::string compression = "none";
};

/// The input if it has a table [mine]; else nothing. Throws Error(input) with all problems.
std::optional<MiningConfig> mining_config(const std::string& path, const std::vector<std::string>& overrides);

/// The values in use as TOML, which reads back to the same.
std::string resolved_toml(MiningConfig config);

struct MiningSummary {
  std::int64_t rows = 0, negatives = 0, rows_without = 0, sequences = 0, tokens = 0, shards = 0;
};

/// Checks what can be checked without reading tokens. Throws Error(data), Error(files) with all problems.
void check_mining(const MiningConfig& config);

/// Collective over `group`. Throws as prepare() does. Files in [output] directory change at the very end only.
MiningSummary mine(const MiningConfig& config, comm::Communicator& group,
                   const std::function<void(const std::string&)>& say);

/// The lines printed at the end.
std::string describe(const MiningSummary& summary, const MiningConfig& config);

}  // namespace bert_hpc::prep
