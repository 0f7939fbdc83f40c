// Offsets of the numbers in a checkpoint file that its manifest describes.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "bert_hpc/io/checkpoint_file.hpp"

namespace bert_hpc::io {

inline constexpr const char* checkpoint_schema = "bert_hpc checkpoint 1";

/// How much lies before each piece of a file in its datasets: numbers of parameters, of other forms (by form), by
/// piece.
struct PieceBegins {
  std::int64_t parameters = 0;
  std::array<std::int64_t, quantity_forms> of_form{};
  std::int64_t phase = 0;  // elements of its first block that lie before it

  std::int64_t of(const CheckpointManifest& manifest, std::size_t quantity) const {
    return quantity == 0 ? parameters : of_form[static_cast<std::size_t>(manifest.quantities[quantity].form)];
  }
};

/// A file as the manifest describes it.
struct FileLayout {
  std::vector<std::int64_t> places;  // of the datasets, in bytes from the file's begin; 0 if there is none
  std::vector<PieceBegins> begins;   // by piece, and one more
};

/// Layout of file number `number` at `path`. Checks its attributes and datasets: throws Error(files) if they are not
/// what the manifest says.
FileLayout layout_of(const std::string& path, const CheckpointManifest& manifest, std::size_t number, std::mutex& hdf5);

}  // namespace bert_hpc::io
