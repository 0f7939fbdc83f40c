#include "bert_hpc/ops/build_description.hpp"

namespace bert_hpc::ops {

std::string instruction_sets() {
  return {};
}

}  // namespace bert_hpc::ops
