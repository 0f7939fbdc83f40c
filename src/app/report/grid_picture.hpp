// The grid of ranks as the banner draws it: for every stage of the pipeline the blocks it holds, on which ranks, how
// many parameters and how much memory each of them. As long for 1,024 ranks as for 2: a line a stage, equal stages
// together.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bert_hpc/comm/process_grid.hpp"

namespace bert_hpc::app {

struct StageFacts {
  /// Sublayers of each virtual stage, in the order of the model: their number, and which (model::blocks_text()).
  std::vector<std::pair<int, std::string>> sublayers;
  std::int64_t parameters = 0;  ///< of one rank
  std::int64_t bytes = 0;       ///< planned memory of one rank; 0: unknown

  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.sublayers, self.parameters, self.bytes);
  }
};

/// `stages`: one for each stage of the pipeline. Lines end with '\n' and have no indentation.
std::string grid_picture(const comm::GridShape& shape, const std::vector<StageFacts>& stages);

}  // namespace bert_hpc::app
