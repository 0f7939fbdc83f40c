#include "cuda_products.hpp"

namespace bert_hpc::ops {

bool has_tf32() {
  return true;
}

std::vector<ProductKind> product_kinds() {
  return {{"cublas", make_cublas_product}, {"portable", make_portable_product}};
}

}  // namespace bert_hpc::ops
