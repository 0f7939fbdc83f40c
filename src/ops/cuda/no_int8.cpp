// GPUs compute in FP8 and bf16 instead.
#include "bert_hpc/ops/int8_product.hpp"

namespace bert_hpc::ops {

std::unique_ptr<Int8Product> make_int8_product(std::unique_ptr<MatrixProduct>) {
  return nullptr;
}

bool has_int8() {
  return false;
}

}  // namespace bert_hpc::ops
