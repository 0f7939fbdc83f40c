// The gemm back ends of NVIDIA GPUs; see product_kinds() in ../gemm.hpp.
#pragma once

#include <memory>

#include "../gemm.hpp"

namespace bert_hpc::ops {

std::unique_ptr<MatrixProduct> make_cublas_product(const ProductSettings& settings);
/// The reference: one dot product per element.
std::unique_ptr<MatrixProduct> make_portable_product(const ProductSettings& settings);

}  // namespace bert_hpc::ops
