#include "bert_hpc/train/step_costs.hpp"

namespace bert_hpc::train {

namespace {

constexpr double element = sizeof(float);

double attention_weights(const ModelShape& m) {
  return 4 * m.hidden * m.hidden;
}
double feed_forward_weights(const ModelShape& m) {
  return 2 * m.hidden * m.intermediate;
}

/// Products of so many operations, attention between them, rows that the forward pass reads and writes (backward reads
/// those and moves as many gradients), and the operands of the weight gradients' products, all but rows in numbers.
PassWork sublayer_work(double products, double attention, double moved, double operands, double weights,
                       double head_rows) {
  PassWork work;
  work.forward = {.flops = products + attention,
                  .bytes = moved + element * weights,
                  .attention = attention,
                  .moved = moved,
                  .head_rows = head_rows,
                  .passes = 1};
  work.backward_input = {.flops = products + 2.5 * attention,
                         .bytes = 2 * moved + element * weights,
                         .attention = 2.5 * attention,
                         .moved = 2 * moved,
                         .head_rows = 2.5 * head_rows,
                         .passes = 1};
  work.backward_weight = {.flops = products,
                          .bytes = operands + 2 * element * weights,  // sums are read and written
                          .moved = operands,
                          .passes = 1};
  return work;
}

/// `rows`: those that come out; keys and values are computed of all tokens.
PassWork attention_work(const ModelShape& m, const MicroBatchShape& batch, double rows) {
  const double key_value = 2 * m.hidden * m.hidden, weights = attention_weights(m);
  const double share = batch.tokens > 0 ? rows / batch.tokens : 0;
  return sublayer_work(2 * (batch.tokens * key_value + rows * (weights - key_value)),
                       4 * m.hidden * batch.squared_lengths * share,
                       m.activation * m.hidden * (batch.tokens * 7 + rows * 5),
                       m.activation * m.hidden * (batch.tokens * 3 + rows * 3), weights, rows * m.heads);
}

PassWork feed_forward_work(const ModelShape& m, double rows) {
  const double weights = feed_forward_weights(m);
  return sublayer_work(2 * rows * weights, 0, m.activation * rows * (6 * m.hidden + 3 * m.intermediate),
                       m.activation * rows * (2 * m.hidden + 2 * m.intermediate), weights, 0);
}

/// Of a sublayer: the last block's are as few as the head reads.
double rows_out(const ModelShape& m, std::int64_t sublayer, const MicroBatchShape& batch) {
  return rows_into(m, sublayer + 1, batch);
}

PassWork embeddings_work(const ModelShape& m, const MicroBatchShape& batch) {
  const double rows = m.activation * batch.tokens * m.hidden;
  PassWork work;
  work.forward.bytes = 6 * rows;  // three tables read, their sum written, the layer norm's reading and writing
  work.backward_input.bytes = 3 * rows;
  work.backward_weight.bytes = 7 * rows;  // the gradient read, three tables' rows read and written
  for (Work* pass : {&work.forward, &work.backward_input, &work.backward_weight}) {
    pass->moved = pass->bytes;
    pass->passes = 1;
  }
  return work;
}

double head_weights(const ModelShape& m) {
  return m.hidden * (m.hidden + m.outputs);
}

PassWork head_work(const ModelShape& m, const MicroBatchShape& batch) {
  const double products = 2 * batch.head_rows * head_weights(m), weights = element * head_weights(m);
  const double rows = batch.head_rows * (m.activation * 4 * m.hidden + element * 3 * m.outputs);
  PassWork work;
  work.forward = {.flops = products, .bytes = rows + weights, .moved = rows, .passes = 1};
  work.backward_input = work.forward;
  work.backward_weight = {.flops = products, .bytes = rows + 2 * weights, .moved = rows, .passes = 1};
  return work;
}

void add(PassWork& sum, const PassWork& more) {
  sum.forward += more.forward;
  sum.backward_input += more.backward_input;
  sum.backward_weight += more.backward_weight;
}

}  // namespace

ModelShape model_shape(const model::ModelConfig& config, const layers::HeadKind& kind, core::DataType storage) {
  ModelShape shape;
  shape.blocks = config.num_hidden_layers;
  shape.hidden = static_cast<double>(config.hidden_size);
  shape.intermediate = static_cast<double>(config.intermediate_size);
  shape.heads = static_cast<double>(config.num_attention_heads);
  shape.vocabulary = static_cast<double>(config.vocab_size);
  shape.positions = static_cast<double>(config.max_position_embeddings);
  shape.types = static_cast<double>(config.type_vocab_size);
  shape.ties_word_embeddings = kind.ties_word_embeddings;
  shape.outputs = static_cast<double>(kind.outputs(config.vocab_size, config.num_labels()));
  shape.activation = static_cast<double>(core::bytes_of(storage));
  return shape;
}

double rows_into(const ModelShape& shape, std::int64_t sublayer, const MicroBatchShape& batch) {
  return sublayer + 1 >= 2 * shape.blocks ? batch.head_rows : batch.tokens;
}

PassWork part_work(const ModelShape& model, const model::ModelRange& part, const MicroBatchShape& batch, int tensor) {
  PassWork work;
  if (part.embeddings) add(work, embeddings_work(model, batch));
  for (std::int64_t sublayer = part.first; sublayer < part.last; ++sublayer) {
    const double rows = rows_out(model, sublayer, batch);
    add(work, sublayer % 2 == 0 ? attention_work(model, batch, rows) : feed_forward_work(model, rows));
  }
  if (part.head) add(work, head_work(model, batch));
  for (Work* pass : {&work.forward, &work.backward_input, &work.backward_weight}) {
    for (double* amount : {&pass->flops, &pass->bytes, &pass->attention, &pass->moved, &pass->head_rows}) {
      *amount /= tensor;
    }
  }
  return work;
}

double seconds(const Work& work, const core::MachineDescription& machine) {
  const auto rate = [](double special, double general) { return special > 0 ? special : general; };
  return (work.flops - work.attention) / machine.flops + work.attention / rate(machine.attention_flops, machine.flops) +
         (work.bytes - work.moved) / machine.memory_bandwidth +
         work.moved / rate(machine.activation_bandwidth, machine.memory_bandwidth) +
         work.head_rows * machine.attention_row + work.passes * machine.pass_overhead;
}

double part_parameters(const ModelShape& m, const model::ModelRange& part, int tensor) {
  double count = 0;
  for (std::int64_t sublayer = part.first; sublayer < part.last; ++sublayer) {  // weights, biases, layer norm
    count += sublayer % 2 == 0 ? attention_weights(m) + 6 * m.hidden
                               : feed_forward_weights(m) + m.intermediate + 3 * m.hidden;
  }
  const double tables = (m.vocabulary + m.positions + m.types + 2) * m.hidden;
  if (part.embeddings) count += tables;
  // A tied decoder is the word embeddings: where those lie with another stage, a copy of them.
  const double decoder = m.ties_word_embeddings && part.embeddings ? 0 : m.hidden * m.outputs;
  if (part.head)
    count += m.hidden * m.hidden + m.hidden + decoder + m.outputs + (m.ties_word_embeddings ? 2 * m.hidden : 0);
  return count / tensor;
}

double activation_bytes(const ModelShape& m, const model::ModelRange& part, const MicroBatchShape& batch, int tensor) {
  // The input of the part and its gradient, or the embeddings' sum and output.
  double elements = 2 * rows_into(m, part.first, batch) * m.hidden;
  for (std::int64_t sublayer = part.first; sublayer < part.last;
       ++sublayer) {  // as Sublayer::SavedActivations lists them
    const double rows = rows_out(m, sublayer, batch);
    elements += sublayer % 2 == 0 ? batch.tokens * 2 * m.hidden + rows * (4 * m.hidden + m.heads + 2)
                                  : rows * (2 * m.hidden + 2 * m.intermediate + 2);
  }
  if (part.head) elements += batch.head_rows * (3 * m.hidden + m.outputs);
  return m.activation * elements / tensor;
}

double deferred_bytes(const ModelShape& m, const model::ModelRange& part, const MicroBatchShape& batch, int tensor) {
  double elements = 0;
  for (std::int64_t sublayer = part.first; sublayer < part.last;
       ++sublayer) {  // as Sublayer::WeightGradientInputs, and the output's gradient
    const double rows = rows_out(m, sublayer, batch);
    elements +=
        sublayer % 2 == 0 ? batch.tokens * 2 * m.hidden + rows * 3 * m.hidden : rows * (2 * m.hidden + m.intermediate);
  }
  return m.activation * elements / tensor;
}

}  // namespace bert_hpc::train
