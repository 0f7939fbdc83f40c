// ShardReader: a data set made of shards, as one list of samples. Lengths and labels of all samples are in memory.
// Tokens that fit into memory_limit are too; blocks are read when they are needed, or ahead. Otherwise tokens come
// through a cache. Processes may share either. Files of a few MiB are verified and read at once. Each block of a larger
// file has a checksum, which is verified when the block is read.
//
// Sample i is a sequence of the shards in the order given, files that a pattern matches sorted by name; so the numbers
// do not depend on ranks, and neither does anything that is keyed by them. A shard that is repeated counts as
// several shards, and each of them has its own sample numbers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "bert_hpc/data/sequence_table.hpp"
#include "bert_hpc/data/shard_content.hpp"
#include "bert_hpc/data/shard_file.hpp"
#include "bert_hpc/data/shard_schema.hpp"
#include "bert_hpc/data/token_cache.hpp"
#include "bert_hpc/data/token_store.hpp"

namespace bert_hpc::data {

/// Ranks that open the same data set at the same time: each reads some of the shards and sends the others what it read,
/// so that a file is opened once however many ranks there are.
struct ReadingRanks {
  int rank = 0, count = 1;
  bool checks_files = false;  ///< that others have read: one rank of a node does
  std::function<void(std::span<std::byte> data, int root)> broadcast{};  ///< collective
  std::function<bool(bool value)> any{};  ///< collective: whether it is true on some rank
};

struct ShardReaderOptions {
  std::string name = "data.train";                    ///< the input's key, for messages
  std::vector<std::string> paths;                     ///< shard files or patterns (*, ?, [...])
  std::vector<std::int64_t> repeats{};                ///< (paths): how often the data have each; empty: once
  ShardLimits limits;                                 ///< what the model can take
  std::int64_t memory_limit = std::int64_t{2} << 30;  ///< bytes of tokens kept in memory; above, they are cached
  std::int64_t cache_bytes = std::int64_t{1} << 30;   ///< for tokens of each process, if they are not kept
  // Tokens read at once: a chunk of the files.
  std::int64_t cache_unit = std::int64_t{1} << 16;  ///< if they are not kept
  std::int64_t block = std::int64_t{1} << 16;       ///< if they are
  /// Bytes of files that are verified and read before the first use.
  std::int64_t read_at_once = std::int64_t{8} << 20;
  bool source_index = false;  ///< keep the rows of the source text
  ReadingRanks ranks;
  /// Held during HDF5 calls made after construction (the library is not thread-safe); null if no other thread makes
  /// any.
  std::mutex* hdf5_mutex = nullptr;
};

/// A data set that does not exist yet: for --validate with --tokens, and for measurements of a machine.
struct PlannedData {
  ShardInfo info;                     ///< task, vocabulary and labels; the numbers follow from the lengths
  std::vector<std::int32_t> lengths;  ///< (sequences): tokens of each, at least one sequence
};

struct SampleLocation {
  std::string file;
  std::int64_t sequence = 0;  ///< of that file, from 0
};

class ShardReader {
 public:
  /// Opens and checks everything; throws one Error(data) with all problems found, at most one a file. Collective over
  /// options.ranks. If one rank alone fails, for example without memory, it throws there, and the readers of the other
  /// ranks have no files.
  explicit ShardReader(const ShardReaderOptions& options);
  /// Reader of planned data: no file is read; labels, tokens and locations are made up.
  explicit ShardReader(const PlannedData& planned);
  ~ShardReader();
  ShardReader(const ShardReader&) = delete;
  ShardReader& operator=(const ShardReader&) = delete;

  /// As the first shard's, but sequences, tokens and max_length are those of the whole data set.
  const ShardInfo& info() const { return info_; }
  const SpecialIds& special_ids() const { return special_ids_; }
  const SequenceTable& table() const { return table_; }
  std::int64_t samples() const { return table_.sequences(); }
  bool planned() const { return planned_; }
  /// Whether its files hold embeddings. Ids of its tokens are then numbers of rows, from set_first_row()'s on.
  bool has_embeddings() const { return info_.columns > 0; }
  void set_first_row(std::int64_t row) { first_row_ = row; }
  /// Bytes that it keeps with all tokens read or a full cache, of shared tokens the part of this process.
  std::int64_t memory_bytes() const;

  std::int64_t file_bytes() const { return file_bytes_; }  ///< of all files
  std::int64_t tokens_of(std::size_t file) const;          ///< or rows of embeddings
  std::int64_t tokens_of_path(std::size_t path) const;     ///< of all files of one of options.paths
  /// Bytes of datasets that this process has read since it opened the files, without the check of whole small files.
  /// Any thread.
  std::int64_t bytes_read() const { return bytes_read_; }
  std::int64_t opening_bytes() const { return opening_bytes_; }  ///< that were read to open it, by all of options.ranks

  bool keeps_tokens() const { return store_ != nullptr; }  ///< all of them, else some in a cache
  std::int64_t token_bytes() const;                        ///< of the tokens that are kept, or of the full cache
  /// Bytes of shared memory for `processes` processes: all tokens, if they are kept and not all read yet, or the caches
  /// of all processes; else 0. Equal on all processes that have opened the same shards with the same limits.
  std::int64_t bytes_to_share(int processes) const;
  /// Keeps tokens in `memory`, bytes_to_share() bytes that begin as zeros. `processes` processes share it; this is
  /// number `process`. `owner` keeps the memory alive. Call it before the first read().
  void share(std::span<std::byte> memory, int processes, int process, std::shared_ptr<void> owner);
  /// Starts a thread that reads ahead, unless all tokens are read.
  void start_reading();

  const std::vector<std::string>& files() const { return files_; }  ///< after patterns were matched
  const std::vector<std::string>& seals() const { return seals_; }  ///< io::seal_text() of each file as it was read

  /// (samples), of sets (samples, label names), of spans (samples, 2); empty unless the task has such labels, or
  /// source_index was asked for.
  std::span<const std::int32_t> classes() const { return labels_.classes; }
  std::span<const float> values() const { return labels_.values; }
  /// Columns of values(): (samples, columns).
  std::int64_t value_columns() const {
    return labels_.values.empty() ? 1 : std::max<std::int64_t>(1, std::ssize(info_.label_names));
  }
  std::span<const std::uint8_t> sets() const { return labels_.sets; }
  std::span<const std::int32_t> spans() const { return labels_.spans; }
  /// (words().count())
  std::span<const std::int32_t> word_classes() const { return labels_.words; }
  /// Words of all samples; none unless the task has classes of words.
  const Words& words() const { return words_; }
  std::span<const std::int32_t> levels() const { return labels_.levels; }
  /// (groups + 1): samples of each group; empty unless the task ranks candidates.
  std::span<const std::int64_t> groups() const { return groups_; }
  /// (samples, 2): tokens [begin, end) of the text that answers are part of; empty unless the task has answers.
  std::span<const std::int32_t> contexts() const { return contexts_; }
  std::span<const std::int64_t> source_index() const { return source_index_; }

  /// Copies a sample's tokens to ids and types (length of the sample each; types 0 if the shards have none). One
  /// thread at a time. Throws Error(data) on bad data, naming file and row, and on a file that was replaced since.
  void read(std::int64_t sample, std::int32_t* ids, std::int32_t* types);

  /// File and sequence of a sample, for messages.
  SampleLocation location(std::int64_t sample) const;

 private:
  TokenLayout token_layout() const { return {.types = has_types_, .wide = is_wide(info_.vocabulary_size)}; }
  bool reads_at_once() const { return file_bytes_ <= options_.read_at_once; }
  bool reads_tokens_early() const { return reads_at_once() && file_bytes_ <= options_.memory_limit; }
  bool open_all();
  void take(ShardContent content);
  void keep_early(ShardTokens tokens);
  void reserve_for_all(std::int64_t first_bytes);
  void keep_tokens();
  bool fits() const;
  std::int64_t memory_for_tokens(int processes) const;
  void use(std::span<std::byte> memory);
  std::int64_t sequences_of(std::size_t file) const;
  std::vector<std::int64_t> tokens_of_files() const;
  TokenCache::Read block_reader();
  const ShardFile& opened(int file);
  std::size_t file_of(std::int64_t sample) const;

  ShardReaderOptions options_;
  std::vector<std::string> files_, seals_;
  std::vector<std::int64_t> first_sample_;  // (files)
  std::vector<std::int64_t> first_token_;   // (files)
  ShardInfo info_;
  SpecialIds special_ids_;
  SequenceTable table_;
  LabelColumn labels_;
  std::vector<std::int64_t> source_index_;
  std::vector<std::int32_t> contexts_;
  Words words_;
  std::vector<std::int64_t> groups_;
  bool has_types_ = false, planned_ = false;
  std::int64_t first_row_ = 0;  // of embeddings
  std::int64_t file_bytes_ = 0, opening_bytes_ = 0;
  std::atomic<std::int64_t> bytes_read_ = 0;
  std::vector<ShardTokens> early_;                      // (files) until the store has them
  std::unique_ptr<TokenStore> store_;                   // if tokens are kept
  std::unique_ptr<TokenCache> cache_;                   // else
  std::shared_ptr<void> memory_;                        // of either
  int processes_ = 1, process_ = 0;                     // that share it, and which this is
  std::mutex reading_;                                  // held while a block is read
  std::vector<std::int64_t> path_ends_;                 // (options.paths): the end of each path's files
  std::vector<std::unique_ptr<ShardFile>> open_files_;  // (files) most of them closed
  std::vector<int> open_order_;                         // those open, the longest first
  std::atomic<bool> stops_ = false;
  std::thread reader_;
};

/// Throws Error(data) if two data sets of one run do not go together: tokens of another vocabulary, other label names,
/// another task. Without `labels` those are not compared.
void require_alike(const ShardReader& first, const ShardReader& other, bool labels);

}  // namespace bert_hpc::data
