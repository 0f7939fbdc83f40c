#include "bert_hpc/comm/sealed_sign.hpp"

#include <cstddef>
#include <span>

namespace bert_hpc::comm {

std::uint64_t code_of(const SealedSign& sealed, const core::HashKey& key) {
  return core::siphash_2_4(key, std::as_bytes(std::span(&sealed, 1)).first(offsetof(SealedSign, code)));
}

bool is_genuine(const SealedSign& sealed, const core::HashKey& key, int to, std::uint64_t last_number) {
  return sealed.to == to && sealed.number > last_number && sealed.code == code_of(sealed, key);
}

}  // namespace bert_hpc::comm
