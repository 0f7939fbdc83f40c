#include "bert_hpc/layers/costs.hpp"

#include <initializer_list>

namespace bert_hpc::layers {

Work& Work::operator+=(const Work& other) {
  flops += other.flops;
  bytes += other.bytes;
  attention += other.attention;
  moved += other.moved;
  attention_rows += other.attention_rows;
  passes += other.passes;
  return *this;
}

PassWork& PassWork::operator+=(const PassWork& other) {
  forward += other.forward;
  backward_input += other.backward_input;
  backward_weight += other.backward_weight;
  return *this;
}

PassWork& PassWork::operator/=(double ranks) {
  for (Work* work : {&forward, &backward_input, &backward_weight}) {
    for (double* amount : {&work->flops, &work->bytes, &work->attention, &work->moved, &work->attention_rows}) {
      *amount /= ranks;
    }
  }
  return *this;
}

PassWork work_of_products(double products, double attention, double moved, double operands, double weights,
                          double attention_rows) {
  constexpr double element = sizeof(float);  // of weights and their gradients
  PassWork work;
  work.forward = {.flops = products + attention,
                  .bytes = moved + element * weights,
                  .attention = attention,
                  .moved = moved,
                  .attention_rows = attention_rows,
                  .passes = 1};
  work.backward_input = {.flops = products + 2.5 * attention,
                         .bytes = 2 * moved + element * weights,
                         .attention = 2.5 * attention,
                         .moved = 2 * moved,
                         .attention_rows = 2.5 * attention_rows,
                         .passes = 1};
  work.backward_weight = {.flops = products,
                          .bytes = operands + 2 * element * weights,  // sums are read and written
                          .moved = operands,
                          .passes = 1};
  return work;
}

}  // namespace bert_hpc::layers
