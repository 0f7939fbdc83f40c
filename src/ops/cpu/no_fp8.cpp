// CPUs have no FP8 multiplication.
#include "../fp8_byte_product.hpp"

namespace bert_hpc::ops {

std::unique_ptr<Fp8Product> make_device_fp8_product(MatrixProduct&, const std::vector<Fp8Layer>&, const Fp8Settings&) {
  return nullptr;
}

}  // namespace bert_hpc::ops
