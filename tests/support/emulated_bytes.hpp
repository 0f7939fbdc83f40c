// The kernels of 8-bit integers for processors that multiply and add bytes in vectors or tile registers, compiled by
// tests/CMakeLists.txt so that C++ does what their instructions do: they run on any processor.
#pragma once

#include <vector>

#include "../src/ops/cpu/int8_product.hpp"

namespace bert_hpc::ops::cpu::emulated_bytes {
const Int8Kernels& int8_kernels();
}
namespace bert_hpc::ops::cpu::emulated_tiles {
const Int8Kernels& int8_kernels();
}

namespace bert_hpc::test {

/// The kernels that this processor runs, each once.
inline std::vector<const ops::cpu::Int8Kernels*> int8_kernels() {
  std::vector<const ops::cpu::Int8Kernels*> all = {&ops::cpu::emulated_tiles::int8_kernels(),
                                                   &ops::cpu::emulated_bytes::int8_kernels(),
                                                   &ops::cpu::baseline::int8_kernels()};
  const ops::cpu::Int8Kernels* const fastest = &ops::cpu::fastest_int8_kernels();
  if (fastest != all.back()) all.push_back(fastest);
  return all;
}

}  // namespace bert_hpc::test
