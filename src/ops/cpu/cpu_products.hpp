// The gemm back ends of CPUs; see product_kinds() in ../gemm.hpp.
#pragma once

#include <memory>

#include "../gemm.hpp"

namespace bert_hpc::ops {

/// Whether the native back end has kernels for this processor, not only portable ones.
bool native_product_is_tuned();

/// Each function returns null if this build or processor lacks the back end. The libraries only compute in fp32.
std::unique_ptr<MatrixProduct> make_native_product(const ProductSettings& settings);  ///< never null
/// The native back end without special instructions; never null.
std::unique_ptr<MatrixProduct> make_portable_product(const ProductSettings& settings);
std::unique_ptr<MatrixProduct> make_onednn_product(const ProductSettings& settings);
std::unique_ptr<MatrixProduct> make_blas_product(const ProductSettings& settings);

}  // namespace bert_hpc::ops
