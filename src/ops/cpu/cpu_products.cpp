#include "cpu_products.hpp"

namespace bert_hpc::ops {

bool has_tf32() {
  return false;
}

std::vector<ProductKind> product_kinds() {
  std::vector<ProductKind> kinds;
  const ProductKind native{"native", make_native_product}, portable{"portable", make_portable_product};
  // On an unknown processor a library is better tuned, so our own gemms come last.
  if (native_product_is_tuned()) kinds.push_back(native);
  for (const ProductKind& library : {ProductKind{"onednn", make_onednn_product}, {"blas", make_blas_product}}) {
    if (library.make({}) != nullptr) kinds.push_back(library);
  }
  kinds.push_back(portable);
  if (!native_product_is_tuned()) kinds.push_back(native);
  return kinds;
}

}  // namespace bert_hpc::ops
