// A file of embeddings, RUN/embeddings/SPLIT-NNNNN.h5 (input/README.md, "Embeddings"): a part of a data set's sequences
// in their order. Its checksum covers all bytes; it gets its name when it is complete.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/data/shard_reader.hpp"
#include "bert_hpc/io/hdf5/hdf5.hpp"

namespace bert_hpc::app {

/// How embeddings are stored.
struct EmbeddingFormat {
  std::string type = "fp32";    ///< "fp32", "fp16", "bf16", "int8"
  std::int64_t dimensions = 0;  ///< columns that are kept, from the first
  bool normalize = false;       ///< rows have length 1, a row of zeros excepted
  bool gzip = false;
  bool of_tokens = false;  ///< a row for each token, else for each sequence

  std::int64_t element_bytes() const { return type == "fp32" ? 4 : type == "int8" ? 1 : 2; }
};

/// Divides the row by its length, or by 1e-12 if that is larger (torch.nn.functional.normalize). Pure.
void normalize_row(std::span<float> row);

/// Rounds the row to whole numbers from -127 to 127 times the scale that is returned; 0 for a row of zeros. Pure.
float round_to_int8(std::span<const float> row, std::span<std::int8_t> rounded);

/// Attributes that say what a file's embeddings are; equal ones mean equal embeddings.
using EmbeddingIdentity = std::vector<std::pair<std::string, std::string>>;

class EmbeddingFile {
 public:
  /// Begins the file for the sequences from `first` on. `reader` must outlive it; `hdf5` is held during HDF5 calls.
  /// Throws Error(files).
  EmbeddingFile(std::string path, const EmbeddingFormat& format, const EmbeddingIdentity& identity,
                const data::ShardReader& reader, std::int64_t first, std::mutex& hdf5);
  ~EmbeddingFile();
  EmbeddingFile(const EmbeddingFile&) = delete;
  EmbeddingFile& operator=(const EmbeddingFile&) = delete;

  /// The next sequence: rows of `columns` floats, one, or one for each token. Throws Error(files).
  void add(std::span<const float> rows, std::int64_t columns);
  /// Copies labels and rows of the text from the shards and gives the file its name. Throws Error(files), Error(data).
  void close();

 private:
  void append_row(std::span<const float> row);
  void copy_labels();
  void copy_names();

  std::string path_;
  EmbeddingFormat format_;
  const data::ShardReader& reader_;
  std::int64_t first_, sequences_ = 0, rows_ = 0;
  std::mutex& hdf5_;
  std::optional<io::Hdf5File> file_;
  // One of them, by type.
  std::unique_ptr<io::Appender<float>> floats_;
  std::unique_ptr<io::Appender<std::uint16_t>> halves_;
  std::unique_ptr<io::Appender<std::int8_t>> bytes_;
  std::unique_ptr<io::Appender<float>> scales_;  // int8
  std::vector<std::int64_t> offsets_{0};         // of tokens
  std::vector<float> row_;
  std::vector<std::uint16_t> half_;
  std::vector<std::int8_t> byte_;
};

/// Whether there is a complete file of this identity at the path, for sequences from `first` on. Reads all of it.
/// `hdf5` is held during HDF5 calls.
bool is_complete(const std::string& path, const EmbeddingIdentity& identity, std::int64_t first, std::mutex& hdf5);

}  // namespace bert_hpc::app
