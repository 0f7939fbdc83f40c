#include "bert_hpc/train/fp8_step.hpp"

namespace bert_hpc::train {

void begin_fp8_step(ops::Fp8Product& products, comm::Communicator& tensor) {
  if (!products.scales().known()) return;  // this step computes without
  products.note_weights();
  tensor.all_reduce(products.scales().weight_magnitudes(), comm::Reduction::maximum);
  products.round_weights();
}

void end_fp8_step(ops::Fp8Product& products, comm::Communicator& tensor, comm::Communicator& data, bool skipped) {
  ops::Fp8Scales& scales = products.scales();
  if (skipped) return scales.forget_step();
  for (comm::Communicator* group : {&tensor, &data}) {
    group->all_reduce(scales.step_magnitudes(), comm::Reduction::maximum);
  }
  scales.end_step();
}

}  // namespace bert_hpc::train
