// A parameter that is used at both ends of the model (the word embeddings, tied to the decoder of masked language
// modelling: Press and Wolf 2017) and stored twice, once for each use. The gradients of the two uses are summed
// separately over micro-batches and replicas, and added to each other once a step. Both copies then get the same
// update.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/train/gradient_norm.hpp"

namespace bert_hpc::train {

class TiedGradients {
 public:
  /// Original and copy are both slices of `parameters`; or only one of them is, and the other is in the same slice of
  /// the other rank of `ends` (null if this rank has neither). Both arguments must outlive this object.
  TiedGradients(const core::ParameterStore& parameters, const std::string& original, const std::string& copy,
                comm::Communicator* ends);

  std::int64_t bytes() const { return received_.size() * static_cast<std::int64_t>(sizeof(float)); }

  /// Collective over `ends`. `sums` are this rank's pieces of the summed gradients, the same for original and copy.
  void add(std::span<const OwnedRange> sums);

 private:
  /// Elements [begin, begin + size) of the arena; size 0: none.
  struct Range {
    std::int64_t begin = 0, size = 0;
  };
  /// Finds the parts of the range that `sums` hold.
  static void find(Range range, std::span<const OwnedRange> sums, std::vector<std::span<float>>& parts);

  Range original_, copy_;
  comm::Communicator* ends_;
  core::Buffer<float> received_;
  std::vector<std::span<float>> originals_, copies_;  // members, so that a step allocates nothing
};

}  // namespace bert_hpc::train
