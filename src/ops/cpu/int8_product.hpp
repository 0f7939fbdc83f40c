// Products of 8-bit integers with kernels that the caller chooses, for tests.
#pragma once

#include "bert_hpc/ops/int8_product.hpp"
#include "int8/int8_kernels.hpp"

namespace bert_hpc::ops::cpu {

std::unique_ptr<Int8Product> make_int8_product(std::unique_ptr<MatrixProduct> others, const Int8Kernels& kernels);

}  // namespace bert_hpc::ops::cpu
