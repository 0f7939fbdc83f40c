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

/// How a dataset holds what is kept of elements.
enum class QuantityForm {
  numbers,        ///< fp32: "parameters" of all elements, states of those of trainable tensors
  small_numbers,  ///< fp32, of trainable tensors that are too small for blocks (core/state_blocks.hpp)
  codes,   ///< uint8, of the other trainable tensors; dataset "block_phases" has a number for each piece: how many
           ///< elements of its first block lie before it
  scales,  ///< fp32, for each block that a piece of these has a part of
};
inline constexpr int quantity_forms = 4;

/// What is kept of elements, by the name of its dataset. The first one of a checkpoint is "parameters"; then come the
/// optimizer's states.
struct QuantityKind {
  std::string name;
  QuantityForm form = QuantityForm::numbers;
  bool operator==(const QuantityKind&) const = default;
};
inline constexpr const char* parameters_name = "parameters";
inline constexpr const char* phases_name = "block_phases";

/// The contents of a dataset, in the order of the pieces: floats or bytes. A quantity without any has no dataset.
struct Quantity {
  std::string name;
  std::span<const float> numbers;
  std::span<const std::uint8_t> codes{};
};

struct CheckpointManifest {
  std::string id;  ///< the same in all files of one checkpoint, unique to it
  std::int64_t step = 0;
  std::vector<core::WholeTensor> tensors;
  struct File {
    int rank = 0;
    std::vector<core::TensorPiece> pieces;
  };
  std::vector<File> files;
  std::vector<QuantityKind> quantities = {{parameters_name}};
  // What else there is to keep, by name.
  std::vector<std::pair<std::string, std::int64_t>> integers;
  std::vector<std::pair<std::string, double>> reals;
  std::vector<std::pair<std::string, std::string>> texts;

  /// Throws Error(files) if there is no entry of that name.
  std::int64_t integer(const std::string& name) const;
  double real(const std::string& name) const;
  bool has_number(const std::string& name) const;  ///< of either type
  const std::string& text(const std::string& name) const;
  /// Whether the tensor of this number has elements in quantity number `quantity`.
  bool holds(std::size_t quantity, std::int64_t tensor) const;
};

inline constexpr const char* manifest_name = "manifest.h5";
std::string checkpoint_file_name(int rank);  ///< "rank-00003.h5"

/// Bytes that a file takes beside its numbers, about.
inline constexpr std::int64_t checkpoint_file_overhead = 8192;

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

  // Elements [first, first + out.size()) of a whole tensor. They throw Error(files) where not all are there.
  void read(const std::string& quantity, std::int64_t tensor, std::int64_t first, std::span<float> out);
  void read_codes(const std::string& quantity, std::int64_t tensor, std::int64_t first, std::span<std::uint8_t> out);
  /// For each element the scale of its block.
  void read_scales(const std::string& quantity, std::int64_t tensor, std::int64_t first, std::span<float> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bert_hpc::io
