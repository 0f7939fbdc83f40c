// The reference for the other implementations of attention.
#pragma once

#include <memory>

#include "bert_hpc/ops/attention.hpp"

namespace bert_hpc::ops {

/// For operands of every type.
std::unique_ptr<Attention> make_portable_attention();

}  // namespace bert_hpc::ops
