// SipHash-2-4 against values of its authors.
#include "bert_hpc/core/keyed_hash.hpp"

#include <catch2/catch_test_macros.hpp>
#include <numeric>
#include <vector>

namespace bert_hpc::core {

TEST_CASE("SipHash-2-4 gives its authors' codes") {
  const HashKey key = {0x0706050403020100ull, 0x0F0E0D0C0B0A0908ull};
  std::vector<unsigned char> bytes(63);
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(0));
  const auto code = [&](std::size_t size) { return siphash_2_4(key, std::as_bytes(std::span(bytes).first(size))); };
  CHECK(code(15) == 0xA129CA6149BE45E5ull);  // the paper's appendix A
  // From the list of the reference implementation: nothing, a word and its neighbours, the longest.
  CHECK(code(0) == 0x726FDB47DD0E0E31ull);
  CHECK(code(1) == 0x74F839C593DC67FDull);
  CHECK(code(7) == 0xAB0200F58B01D137ull);
  CHECK(code(8) == 0x93F5F5799A932462ull);
  CHECK(code(9) == 0x9E0082DF0BA9E4B0ull);
  CHECK(code(63) == 0x958A324CEB064572ull);
}

}  // namespace bert_hpc::core
