// Writes one shard: see shard_schema.hpp for what is in it. The same sequences in the same order give the same bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "bert_hpc/data/label_column.hpp"
#include "bert_hpc/data/row_texts.hpp"
#include "bert_hpc/data/shard_schema.hpp"
#include "bert_hpc/io/hdf5/hdf5.hpp"

namespace bert_hpc::data {

/// What a sequence has besides tokens and label, as far as its task needs it.
struct SequenceParts {
  std::int32_t context_begin = 0, context_end = 0;  ///< tokens [begin, end) of the text that answers are part of
  std::span<const std::int32_t> words{};            ///< (words, 2): as shard_dataset::word_tokens
  bool starts_group = false;                        ///< of candidates: the first of its query
  // Where ShardInfo::has_texts:
  std::span<const std::int32_t> characters{};  ///< (tokens, 2): as shard_dataset::token_characters
  bool starts_row = false;                     ///< then `texts` are its row's
  std::span<const std::string> texts{};        ///< (Task::row_texts)
};

/// Of the datasets' blocks, which have a checksum either way.
enum class Compression { none, gzip };

class ShardWriter {
 public:
  /// Makes the file, which is no valid shard until finish(). `info`: all but the counts; sequences and tokens are how
  /// many are expected, 0 if that is not known. Throws Error(files).
  ShardWriter(const std::string& path, ShardInfo info, bool token_types, Compression compression = Compression::none);

  /// One sequence. `token_types` is as long as `ids`, or empty if the shard has none; `label` is ignored where the
  /// task has none; `source_index` is the row in the source.
  void add(std::span<const std::int32_t> ids, std::span<const std::uint8_t> token_types, const Label& label,
           std::int64_t source_index, const SequenceParts& parts = {});

  /// Writes counts and seals the file. Throws Error(files).
  /// Stores the text of the tokenizer's specification. Once, at any time before finish().
  void add_tokenizer(const std::string& text);
  void finish();

 private:
  /// The datasets of tasks with answers.
  struct Answers {
    io::Appender<std::int32_t> context;
    std::vector<io::Appender<std::int32_t>> characters{};  // one or none
  };
  /// The datasets of tasks with classes of words.
  struct Words {
    io::Appender<std::int32_t> tokens;
    io::Appender<std::int64_t> offsets;
    std::int64_t count = 0;
  };
  void add_parts(const SequenceParts& parts);

  std::string path_;
  ShardInfo info_;
  bool token_types_;
  io::Storage per_token_, per_sequence_;  // of datasets with rows for each
  io::Hdf5File file_;
  std::variant<io::Appender<std::uint16_t>, io::Appender<std::int32_t>> ids_;
  std::vector<std::uint16_t> narrow_;              // ids of a sequence
  std::vector<io::Appender<std::uint8_t>> types_;  // one or none
  std::optional<LabelWriter> labels_;
  io::Appender<std::int64_t> offsets_, source_index_;
  std::vector<Answers> answers_;                    // one or none
  std::vector<Words> words_;                        // one or none
  std::vector<io::Appender<std::int64_t>> groups_;  // one or none
  std::optional<RowTextsWriter> texts_;
};

}  // namespace bert_hpc::data
