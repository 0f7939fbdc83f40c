// What a manifest that its reader took promises.
#pragma once

#include <vector>

#include "bert_hpc/io/checkpoint_file.hpp"
#include "fuzz.hpp"

namespace fuzz {

inline void require_whole(const bert_hpc::io::CheckpointManifest& manifest) {
  for (std::size_t t = 0; t < manifest.tensors.size(); ++t) {
    const std::int64_t elements = manifest.tensors[t].elements();
    require(elements >= 0, "a tensor has elements");
    if (elements > 4096) continue;  // none of ours
    std::vector<int> times(static_cast<std::size_t>(elements));
    for (const auto& file : manifest.files) {
      for (const bert_hpc::core::TensorPiece& piece : file.pieces) {
        if (piece.tensor != static_cast<std::int64_t>(t)) continue;
        for (std::int64_t run = 0; run < piece.count; ++run) {
          for (std::int64_t i = 0; i < piece.length; ++i) {
            const std::int64_t index = piece.first + run * piece.stride + i;
            require(index >= 0 && index < elements, "pieces lie in their tensors");
            ++times[static_cast<std::size_t>(index)];
          }
        }
      }
    }
    for (const int count : times) require(count == 1, "pieces cover a tensor once");
  }
}

}  // namespace fuzz
