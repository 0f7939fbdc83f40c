// The files of one checkpoint: manifest.h5 with everything except the numbers, and one rank-00003.h5 for each rank that
// saved numbers. These are HDF5 files after a checksummed user block (io/checksummed_file.hpp), which is verified
// before HDF5 opens them. metrics.journal holds the metric history up to the checkpoint's step: a byte-for-byte prefix
// of the run's own journal (io/journal.hpp), whose size and checksum are in the manifest.
//
// Numbers belong to whole tensors, identified by name, not to ranks: a file holds the elements of its pieces
// (core/tensor_piece.hpp) in sequence, in one dataset per quantity; the manifest lists the pieces of all files.
// Payloads are contiguous datasets, read and written with plain pread and pwrite at their file offsets.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/core/tensor_piece.hpp"
#include "bert_hpc/io/atomic_write.hpp"

namespace bert_hpc::io {

/// What is kept of elements: the name of its dataset, and its numbers in the order of the pieces. The first one of a
/// checkpoint is "parameters", which all elements have; then come the optimizer's states, which those of trainable
/// tensors have. A quantity without numbers has no dataset.
struct Quantity {
  std::string name;
  std::span<const float> numbers;
};
inline constexpr const char* parameters_name = "parameters";

struct CheckpointManifest {
  std::string id;  ///< the same in all files of one checkpoint, unique to it
  std::int64_t step = 0;
  std::vector<core::WholeTensor> tensors;
  struct File {
    int rank = 0;
    std::vector<core::TensorPiece> pieces;
  };
  std::vector<File> files;
  /// Names of what is kept of elements: parameters of all, states of those of trainable tensors.
  std::vector<std::string> quantities = {parameters_name};
  // What else there is to keep, by name.
  std::vector<std::pair<std::string, std::int64_t>> integers;
  std::vector<std::pair<std::string, double>> reals;
  std::vector<std::pair<std::string, std::string>> texts;

  /// Throws Error(files) if there is no entry of that name.
  std::int64_t integer(const std::string& name) const;
  double real(const std::string& name) const;
  bool has_number(const std::string& name) const;  ///< of either type
  const std::string& text(const std::string& name) const;
  /// Has the tensor of this number elements in quantity number `quantity`?
  bool holds(std::size_t quantity, std::int64_t tensor) const {
    return quantity == 0 || tensors[static_cast<std::size_t>(tensor)].trainable;
  }
};

inline constexpr const char* manifest_name = "manifest.h5";
std::string checkpoint_file_name(int rank);  ///< "rank-00003.h5"

/// Bytes that a file with so many elements of so many quantities takes, about.
std::int64_t checkpoint_file_bytes(std::int64_t elements, std::int64_t quantities);

/// Writes the file and its checksum. Holds `hdf5` during HDF5 calls, but not while it writes the payload. Writing the
/// payload stops early once `cancelled` is set. Throws Error(files).
void write_checkpoint_file(const std::string& folder, int rank, const std::string& id, std::int64_t step,
                           std::span<const Quantity> quantities, std::mutex& hdf5, const std::atomic<bool>& cancelled,
                           Durability durability = Durability::forced);
void write_manifest(const std::string& folder, const CheckpointManifest& manifest, std::mutex& hdf5,
                    Durability durability = Durability::forced);

/// Throws Error(files), naming `path`, unless the step is not negative, shapes are valid, ranks ascend, and the pieces
/// lie inside their tensors and cover every element exactly once. Pure.
void require_sound(const CheckpointManifest& manifest, const std::string& path);

/// Reads the manifest after verifying its checksum and all its contents. Throws Error(files).
CheckpointManifest read_manifest(const std::string& folder, std::mutex& hdf5);

/// Serialization for sending a manifest that one rank has read to the other ranks of the same program.
std::string to_message(const CheckpointManifest& manifest);
CheckpointManifest manifest_of_message(const std::string& message);

/// Verifies the file of manifest.files[file]: its checksum, that it belongs to the manifest, and its datasets' types
/// and sizes. Throws Error(files).
void verify_checkpoint_file(const std::string& folder, const CheckpointManifest& manifest, std::size_t file,
                            std::mutex& hdf5);

/// The metric history. Records its size and checksum in the manifest's integers.
inline constexpr const char* history_name = "metrics.journal";
void put_history(CheckpointManifest& manifest, std::int64_t bytes, std::uint32_t checksum);
/// Path of the history; "" if the checkpoint has none (older versions write none).
std::string history_path(const std::string& folder, const CheckpointManifest& manifest);
/// Verifies that the history exists with the size and checksum in the manifest. Throws Error(files).
void verify_history(const std::string& folder, const CheckpointManifest& manifest);

/// Reads numbers from a checkpoint whose files have been verified.
class CheckpointReader {
 public:
  /// All arguments must outlive the reader.
  CheckpointReader(std::string folder, const CheckpointManifest& manifest, std::mutex& hdf5);
  ~CheckpointReader();
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  /// Elements [first, first + out.size()) of a whole tensor. Throws Error(files) where they are not all there.
  void read(const std::string& quantity, std::int64_t tensor, std::int64_t first, std::span<float> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bert_hpc::io
