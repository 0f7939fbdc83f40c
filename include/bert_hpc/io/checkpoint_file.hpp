// The files of one checkpoint: manifest.h5, which tells everything but the numbers, and a rank-00003.h5 for each rank
// that saved some. These are HDF5 behind a checksummed user block (io/checksummed_file.hpp) that is verified before
// HDF5 opens them. And metrics.journal, the metric history up to the checkpoint's step: the beginning of the run's own
// journal (io/journal.hpp), byte for byte, whose size and checksum the manifest tells.
//
// Numbers are kept by whole tensors under their names, not by ranks: a file holds, one after the other, the elements of
// its pieces (core/tensor_piece.hpp), in one dataset for each quantity; the manifest lists the pieces of all files.
// Payloads are contiguous datasets, filled and read by plain pwrite and pread at their places in the file.
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

/// What is kept of every element: the name of its dataset, and its numbers in the order of the pieces. The first one of
/// a checkpoint is "parameters", then come the optimizer's states.
struct Quantity {
  std::string name;
  std::span<const float> numbers;
};
inline constexpr const char* parameters_name = "parameters";

struct CheckpointManifest {
  std::string id;  ///< the same in all files of one checkpoint and in no other
  std::int64_t step = 0;
  std::vector<core::WholeTensor> tensors;
  struct File {
    int rank = 0;
    std::vector<core::TensorPiece> pieces;
  };
  std::vector<File> files;
  /// Names of what is kept of every element.
  std::vector<std::string> quantities = {parameters_name};
  // What else there is to keep, by name.
  std::vector<std::pair<std::string, std::int64_t>> integers;
  std::vector<std::pair<std::string, double>> reals;
  std::vector<std::pair<std::string, std::string>> texts;

  /// Throws Error(files) where there is none of that name.
  std::int64_t integer(const std::string& name) const;
  double real(const std::string& name) const;
  bool has_number(const std::string& name) const;  ///< of either kind
  const std::string& text(const std::string& name) const;
};

inline constexpr const char* manifest_name = "manifest.h5";
std::string checkpoint_file_name(int rank);  ///< "rank-00003.h5"

/// Bytes that a file with so many elements of so many quantities takes, about.
std::int64_t checkpoint_file_bytes(std::int64_t elements, std::int64_t quantities);

/// Writes and seals. `hdf5` is held during HDF5 calls, not while the payload is written, which ends
/// early once `cancelled`. Throws Error(files).
void write_checkpoint_file(const std::string& folder, int rank, const std::string& id, std::int64_t step,
                           std::span<const Quantity> quantities, std::mutex& hdf5, const std::atomic<bool>& cancelled,
                           Durability durability = Durability::forced);
void write_manifest(const std::string& folder, const CheckpointManifest& manifest, std::mutex& hdf5,
                    Durability durability = Durability::forced);

/// Throws Error(files), naming `path`, unless the step is not negative, shapes are shapes, ranks ascend, and the pieces
/// lie inside their tensors and hold every element of them once. Pure.
void require_sound(const CheckpointManifest& manifest, const std::string& path);

/// Verifies its checksum and everything it claims. Throws Error(files).
CheckpointManifest read_manifest(const std::string& folder, std::mutex& hdf5);

/// For who has read it to tell other ranks of the same program.
std::string to_message(const CheckpointManifest& manifest);
CheckpointManifest manifest_of_message(const std::string& message);

/// The file of manifest.files[file]: its checksum, that it belongs to the manifest, and its datasets' types and sizes.
/// Throws Error(files).
void verify_checkpoint_file(const std::string& folder, const CheckpointManifest& manifest, std::size_t file,
                            std::mutex& hdf5);

/// The metric history. Its size and checksum, into the manifest's integers.
inline constexpr const char* history_name = "metrics.journal";
void put_history(CheckpointManifest& manifest, std::int64_t bytes, std::uint32_t checksum);
/// Where it is; "" where the checkpoint has none, as those of older versions.
std::string history_path(const std::string& folder, const CheckpointManifest& manifest);
/// That it is there, of the size and with the checksum that the manifest tells. Throws Error(files).
void verify_history(const std::string& folder, const CheckpointManifest& manifest);

/// Reads numbers out of a checkpoint whose files have been verified.
class CheckpointReader {
 public:
  /// All must outlive it.
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
