#include "bert_hpc/ops/build_description.hpp"

#include "gemm.hpp"

namespace bert_hpc::ops {

std::vector<std::string> matmul_libraries() {
  std::vector<std::string> names;
  for (const ProductKind& kind : product_kinds()) {
    if (std::string(kind.name) == "portable") continue;
    if (const auto product = kind.make({})) names.push_back(product->name());
  }
  return names;
}

}  // namespace bert_hpc::ops
