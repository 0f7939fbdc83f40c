// The data sets of a search: files of embeddings with the roles and names of their texts.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "app/engine/search_texts.hpp"
#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/data/shard_reader.hpp"

namespace bert_hpc::app {

/// A data set of embeddings, as a search reads it.
struct EmbeddedSet {
  std::string key;  ///< of the input
  std::unique_ptr<data::ShardReader> reader{};
  TextRoles roles{};
  data::NameList names{};   ///< on rank 0, of all sequences or none
  std::string data_hash{};  ///< on rank 0: of the shards that were embedded
};

struct SearchSets {
  std::mutex hdf5;
  EmbeddedSet queries;
  std::optional<EmbeddedSet> other;  ///< the corpus, if it is not the queries' data set

  const EmbeddedSet& corpus() const { return other ? *other : queries; }
};

/// Collective. Opens and checks what [search] names. Throws Stop after Error(data).
void open_sets(const config::Search& search, comm::Communicator& world, SearchSets& sets);

/// Names of these sequences of the set, which must outlive the result. On rank 0.
NamedTexts named(const EmbeddedSet& set, const std::vector<std::int64_t>& sequences);

}  // namespace bert_hpc::app
