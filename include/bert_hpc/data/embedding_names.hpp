// Names of texts, from shards into files of embeddings (mode "embed") and from there to searches: the ids of documents
// and queries in rankings.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/io/hdf5/hdf5.hpp"

namespace bert_hpc::data {

/// In files of embeddings: uint8 (bytes), UTF-8 of each sequence's name; int64 (sequences + 1), from 0, ascending.
inline constexpr const char *names_dataset = "/names", *name_offsets_dataset = "/name_offsets";

/// Names one after the other in one piece of memory.
struct NameList {
  std::string bytes;
  std::vector<std::int64_t> offsets{0};

  std::int64_t count() const { return std::ssize(offsets) - 1; }
  void add(std::string_view name);
  std::string_view operator[](std::int64_t number) const;
};

/// Adds a name for each of the shard's sequences from `first` to the last of `rows`: that of its row. `rows`: the
/// source index of the shard's sequences from its first one on. The shard has shard_dataset::texts of one text a row.
/// Throws Error(data).
void add_row_names(const io::Hdf5File& shard, std::span<const std::int64_t> rows, std::int64_t first, NameList& names);

/// What a search needs of a file of embeddings besides its rows.
struct EmbeddedTexts {
  std::string task;       ///< of the shards; "": not known
  std::string data_hash;  ///< of the shards
  NameList names;         ///< of each sequence, or none
};
/// Throws Error(data).
EmbeddedTexts read_embedded_texts(const std::string& path);

}  // namespace bert_hpc::data
