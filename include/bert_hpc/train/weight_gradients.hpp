// How the gradients of the blocks' weights are written and stored. One matrix product a micro-batch makes each of them
// whole, so a step's first micro-batch may replace them, and where it is the only one nothing is ever added to them.
// Then they may be stored in bf16: the product sums in fp32 and rounds each element once, by a relative error of at
// most 2^-8; norm and update read them and compute in fp32. PyTorch rounds the same where it trains a model in bf16
// (`model.to(torch.bfloat16)`), as a gradient there has its parameter's type. On GPUs this spares 6 of the 36 bytes
// that a weight's gradient, norm and update move in a step, and 2 bytes of memory.
#pragma once

#include <string>
#include <vector>

#include "bert_hpc/core/data_type.hpp"
#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/train/gradient_norm.hpp"

namespace bert_hpc::train {

/// Whether the first micro-batch of a step replaces gradients of the blocks' weights. On GPUs this spares a pass of the
/// memory over them. But another kind of product may add in another order: which micro-batch is first depends on the
/// layout, so reproducible runs add all. Pure.
bool replaces_first_gradients(bool gpu, bool reproducible);

/// What decides in what gradients of the blocks' weights are stored.
struct WeightGradientFacts {
  core::DataType compute = core::DataType::fp32;  ///< of the blocks' products; bf16 of those in FP8
  bool gpu = false, reproducible = false;
  bool offload = false;        ///< the host updates
  int micro_batches = 1;       ///< most of a replica in a step
  int replicas = 1;            ///< whose gradients are summed
  bool shares_blocks = false;  ///< the gradients of several blocks are summed
};

/// `stated`: "bf16" if possible; "fp32"; "auto": bf16 on GPUs if possible. bf16 is possible if products compute in it
/// and nothing is added to a gradient. Throws Error(input) for other texts. Pure.
core::DataType weight_gradient_type(const WeightGradientFacts& facts, const std::string& stated = "auto");

/// Arena ranges of the gradients that are replaced. Pure.
std::vector<ArenaRange> replaced_gradients(const core::ParameterStore& parameters);

}  // namespace bert_hpc::train
