#include "bert_hpc/ops/build_description.hpp"

namespace bert_hpc::ops {

std::string instruction_sets() {
  return {};
}

bool uses_tile_registers() {
  return false;
}

}  // namespace bert_hpc::ops
