#include "bert_hpc/train/step_costs.hpp"

namespace bert_hpc::train {

namespace {

constexpr double element = sizeof(float);

double block_weights(const ModelShape& m) {
  return 4 * m.hidden * m.hidden + 2 * m.hidden * m.intermediate;
}

/// `rows`: those that come out; keys and values are computed of all tokens.
PassWork block_work(const ModelShape& m, const MicroBatchShape& batch, double rows) {
  const double key_value = 2 * m.hidden * m.hidden;
  const double products = 2 * (batch.tokens * key_value + rows * (block_weights(m) - key_value));
  const double share = batch.tokens > 0 ? rows / batch.tokens : 0;
  const double attention = 4 * m.hidden * batch.squared_lengths * share;
  // Rows read and written once by each product and each elementwise step of the forward pass: 18 of width H (keys and
  // values 7 of them) and 3 of width I; backward reads those and moves as many gradients.
  const double rows_moved = m.activation * (batch.tokens * 7 * m.hidden + rows * (11 * m.hidden + 3 * m.intermediate));
  const double weights = element * block_weights(m);
  PassWork work;
  work.forward = {products + attention, rows_moved + weights};
  work.backward_input = {products + 2.5 * attention, 2 * rows_moved + weights};
  // Inputs and output gradients of the products, and sums that are read and written.
  const double operands = m.activation * (batch.tokens * 3 * m.hidden + rows * (5 * m.hidden + 2 * m.intermediate));
  work.backward_weight = {products, operands + 2 * weights};
  return work;
}

PassWork embeddings_work(const ModelShape& m, const MicroBatchShape& batch) {
  const double rows = m.activation * batch.tokens * m.hidden;
  PassWork work;
  work.forward.bytes = 6 * rows;  // three tables read, their sum written, the layer norm's reading and writing
  work.backward_input.bytes = 3 * rows;
  work.backward_weight.bytes = 7 * rows;  // the gradient read, three tables' rows read and written
  return work;
}

double head_weights(const ModelShape& m) {
  return m.hidden * (m.hidden + m.outputs);
}

PassWork head_work(const ModelShape& m, const MicroBatchShape& batch) {
  const double products = 2 * batch.head_rows * head_weights(m), weights = element * head_weights(m);
  const double rows = batch.head_rows * (m.activation * 4 * m.hidden + element * 3 * m.outputs);
  PassWork work;
  work.forward = {products, rows + weights};
  work.backward_input = {products, rows + weights};
  work.backward_weight = {products, rows + 2 * weights};
  return work;
}

void add(PassWork& sum, const PassWork& more) {
  sum.forward += more.forward;
  sum.backward_input += more.backward_input;
  sum.backward_weight += more.backward_weight;
}

}  // namespace

ModelShape model_shape(const model::BertConfig& config, layers::HeadSettings::Kind kind, core::DataType storage) {
  using Kind = layers::HeadSettings::Kind;
  ModelShape shape;
  shape.hidden = static_cast<double>(config.hidden_size);
  shape.intermediate = static_cast<double>(config.intermediate_size);
  shape.heads = static_cast<double>(config.num_attention_heads);
  shape.vocabulary = static_cast<double>(config.vocab_size);
  shape.positions = static_cast<double>(config.max_position_embeddings);
  shape.types = static_cast<double>(config.type_vocab_size);
  shape.masked_lm = kind == Kind::masked_lm;
  shape.outputs = shape.masked_lm ? shape.vocabulary : static_cast<double>(config.num_labels());
  shape.activation = static_cast<double>(core::bytes_of(storage));
  return shape;
}

PassWork part_work(const ModelShape& model, const PartShape& part, const MicroBatchShape& batch, int tensor) {
  PassWork work;
  if (part.embeddings) add(work, embeddings_work(model, batch));
  for (std::int64_t i = 0; i < part.blocks; ++i) {
    const bool selected = part.head && i + 1 == part.blocks;
    add(work, block_work(model, batch, selected ? batch.head_rows : batch.tokens));
  }
  if (part.head) add(work, head_work(model, batch));
  for (Work* pass : {&work.forward, &work.backward_input, &work.backward_weight}) {
    pass->flops /= tensor;
    pass->bytes /= tensor;
  }
  return work;
}

double seconds(const Work& work, const core::MachineDescription& machine) {
  return work.flops / machine.flops + work.bytes / machine.memory_bandwidth;
}

double part_parameters(const ModelShape& m, const PartShape& part, int tensor) {
  // Weights, their biases (4·H and I + H) and two layer norms.
  double count = static_cast<double>(part.blocks) * (block_weights(m) + 9 * m.hidden + m.intermediate);
  const double tables = (m.vocabulary + m.positions + m.types + 2) * m.hidden;
  if (part.embeddings) count += tables;
  // The decoder of masked_lm is the word embeddings: where those lie with another stage, a copy of them.
  const double decoder = m.masked_lm && part.embeddings ? 0 : m.hidden * m.outputs;
  if (part.head) count += m.hidden * m.hidden + m.hidden + decoder + m.outputs + (m.masked_lm ? 2 * m.hidden : 0);
  return count / tensor;
}

double activation_bytes(const ModelShape& m, const PartShape& part, const MicroBatchShape& batch, int tensor) {
  const auto block = [&](double rows) {  // as EncoderBlock::Saved lists them
    return batch.tokens * 2 * m.hidden + rows * (6 * m.hidden + 2 * m.intermediate + m.heads + 4);
  };
  double elements = 2 * batch.tokens * m.hidden;  // the input of the part, or the embeddings' sum and output
  const std::int64_t whole = part.blocks - (part.head && part.blocks > 0 ? 1 : 0);
  elements += static_cast<double>(whole) * block(batch.tokens);
  if (part.head) elements += block(batch.head_rows) + batch.head_rows * (3 * m.hidden + m.outputs);
  return m.activation * elements / tensor;
}

double kept_bytes(const ModelShape& m, const PartShape& part, const MicroBatchShape& batch, int tensor) {
  const auto block = [&](double rows) {  // as EncoderBlock::Kept lists them, and the gradient of its output
    return batch.tokens * 2 * m.hidden + rows * (5 * m.hidden + m.intermediate);
  };
  const std::int64_t whole = part.blocks - (part.head && part.blocks > 0 ? 1 : 0);
  const double elements = static_cast<double>(whole) * block(batch.tokens) + (part.head ? block(batch.head_rows) : 0);
  return m.activation * elements / tensor;
}

}  // namespace bert_hpc::train
