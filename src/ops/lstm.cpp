#include "bert_hpc/ops/lstm.hpp"

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/vector_math.hpp"
#include "gemm.hpp"
#include "kernel.hpp"

namespace bert_hpc::ops {
namespace {

constexpr int directions = 2, gates_of_cell = 4;

/// body(item, begin, end) for columns [begin, end) of `items` rows: a row on a CPU, an element on a GPU.
template <class Body>
void for_cells(const kernel::Label& label, std::int64_t items, std::int64_t columns, const Body& body) {
#if BERT_HPC_KERNELS_ON_GPU
  kernel::for_items(
      label, items * columns, KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t column = i % columns;
        body(i / columns, column, column + 1);
      });
#else
  kernel::for_items(
      label, items, KOKKOS_LAMBDA(std::int64_t i) { body(i, 0, columns); });
#endif
}

/// Sequences and their rows at one step.
struct Step {
  const std::int32_t *first, *length;
  std::int64_t step, live;

  /// Row of the token of sequence b in a direction.
  KOKKOS_INLINE_FUNCTION std::int64_t row(int direction, std::int64_t b) const {
    return direction == 0 ? first[b] + step : first[b] + length[b] - 1 - step;
  }
};

template <class T>
struct Forward {
  Step at;
  std::int64_t hidden;
  const float* bias;
  Tensor<T> gates;
  Tensor<float> cells;
  Tensor<T> previous, output;
  Tensor<const float> sums[directions];  // R·h of the step before: (live, 4·hidden); without data at the first step
  Tensor<T> states[directions];          // h for the next step: (live, hidden)

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, std::int64_t begin, std::int64_t end) const {
    const int d = item < at.live ? 0 : 1;
    const std::int64_t b = item - d * at.live, row = at.row(d, b), h = hidden, next = d == 0 ? row + 1 : row - 1;
    const bool begins = at.step == 0, goes_on = at.step + 1 < at.length[b];
    T* const gate = gates.row(row) + d * gates_of_cell * h;
    const float* const added = begins ? nullptr : sums[d].row(b);
    const float* const of_bias = bias + d * gates_of_cell * h;
    float* const cell = cells.row(row) + d * h;
    const float* const before = begins ? nullptr : cells.row(d == 0 ? row - 1 : row + 1) + d * h;
    T* const out = output.row(row) + d * h;
    T* const state = states[d].row(b);
    T* const following = previous.row(goes_on ? next : row) + d * h;
    if (begins) {
      compute(
          begin, end, gate, of_bias, [](std::int64_t) { return 0.0f; }, [](std::int64_t) { return 0.0f; }, cell, out,
          state);
      T* const none = previous.row(row) + d * h;
      for (std::int64_t j = begin; j < end; ++j) none[j] = 0.0f;
    } else {
      compute(
          begin, end, gate, of_bias, [added](std::int64_t j) { return added[j]; },
          [before](std::int64_t j) { return before[j]; }, cell, out, state);
    }
    if (!goes_on) return;
    for (std::int64_t j = begin; j < end; ++j) following[j] = state[j];
  }

  template <class Added, class Before>
  KOKKOS_INLINE_FUNCTION void compute(std::int64_t begin, std::int64_t end, T* gate, const float* of_bias,
                                      const Added& added, const Before& before, float* cell, T* out, T* state) const {
    const std::int64_t h = hidden;
#pragma omp simd
    for (std::int64_t j = begin; j < end; ++j) {
      const auto sum = [&](std::int64_t k) { return static_cast<float>(gate[k]) + (added(k) + of_bias[k]); };
      const float i = fast_sigmoid(sum(j)), f = fast_sigmoid(sum(j + h));
      const float g = fast_tanh(sum(j + 2 * h)), o = fast_sigmoid(sum(j + 3 * h));
      const float c = multiply_add(f, before(j), i * g);
      const float y = o * fast_tanh(c);
      gate[j] = i;
      gate[j + h] = f;
      gate[j + 2 * h] = g;
      gate[j + 3 * h] = o;
      cell[j] = c;
      out[j] = y;
      state[j] = y;
    }
  }
};

template <class T>
struct Backward {
  Step at;
  std::int64_t hidden, going_on;  // sequences that have a later step
  Tensor<const T> gates;
  Tensor<const float> cells;
  Tensor<const T> d_output;
  Tensor<T> d_gates;
  Tensor<float> d_states[directions], d_cells[directions];  // of the later step; the latter replaced: (live, hidden)
  Tensor<T> d_step[directions];                             // d_gates of the step: (live, 4·hidden)

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, std::int64_t begin, std::int64_t end) const {
    const int d = item < at.live ? 0 : 1;
    const std::int64_t b = item - d * at.live, row = at.row(d, b), h = hidden;
    const T* const gate = gates.row(row) + d * gates_of_cell * h;
    const float* const cell = cells.row(row) + d * h;
    const float* const before = at.step == 0 ? nullptr : cells.row(d == 0 ? row - 1 : row + 1) + d * h;
    const T* const d_out = d_output.row(row) + d * h;
    T *const d_gate = d_gates.row(row) + d * gates_of_cell * h, *const copy = d_step[d].row(b);
    const float* const d_state = d_states[d].row(b);
    float* const d_cell = d_cells[d].row(b);
    const auto zero = [](std::int64_t) { return 0.0f; };
    const auto in = [](const float* x) { return [x](std::int64_t j) { return x[j]; }; };
    if (b >= going_on) {
      if (before == nullptr) return compute(begin, end, gate, cell, zero, d_out, zero, zero, d_gate, copy, d_cell);
      return compute(begin, end, gate, cell, in(before), d_out, zero, zero, d_gate, copy, d_cell);
    }
    if (before == nullptr) {
      return compute(begin, end, gate, cell, zero, d_out, in(d_state), in(d_cell), d_gate, copy, d_cell);
    }
    compute(begin, end, gate, cell, in(before), d_out, in(d_state), in(d_cell), d_gate, copy, d_cell);
  }

  template <class Before, class Later, class LaterCell>
  KOKKOS_INLINE_FUNCTION void compute(std::int64_t begin, std::int64_t end, const T* gate, const float* cell,
                                      const Before& before, const T* d_out, const Later& later,
                                      const LaterCell& later_cell, T* d_gate, T* copy, float* d_cell) const {
    const std::int64_t h = hidden;
#pragma omp simd
    for (std::int64_t j = begin; j < end; ++j) {
      const float i = gate[j], f = gate[j + h], g = gate[j + 2 * h], o = gate[j + 3 * h];
      const float squashed = fast_tanh(cell[j]);
      const float d_h = static_cast<float>(d_out[j]) + later(j);
      const float d_c = multiply_add(d_h * o, 1.0f - squashed * squashed, later_cell(j));
      const float d_i = d_c * g * (i * (1.0f - i)), d_f = d_c * before(j) * (f * (1.0f - f));
      const float d_g = d_c * i * (1.0f - g * g), d_o = d_h * squashed * (o * (1.0f - o));
      d_gate[j] = d_i;
      d_gate[j + h] = d_f;
      d_gate[j + 2 * h] = d_g;
      d_gate[j + 3 * h] = d_o;
      copy[j] = d_i;
      copy[j + h] = d_f;
      copy[j + 2 * h] = d_g;
      copy[j + 3 * h] = d_o;
      d_cell[j] = d_c * f;
    }
  }
};

template <class T>
void forward_in(MatrixProduct& products, const LstmWeights& weights, const LengthOrder& order,
                const LstmActivations& activations, core::Workspace& scratch) {
  const core::ScratchScope scope(scratch);
  const std::int64_t hidden = activations.cells.columns / directions, most = order.live[0];
  Tensor<float> sums[directions];
  Tensor<T> states[directions];
  for (int d = 0; d < directions; ++d) {
    sums[d] = scratch.take<float>(most, gates_of_cell * hidden);
    states[d] = scratch.take<T>(most, hidden);
  }
  for (std::int64_t t = 0; t < order.steps; ++t) {
    const std::int64_t live = order.live[t];
    for (int d = 0; d < directions && t > 0; ++d) {
      products.forward(states[d].row_range(0, live), weights.recurrent[d], {}, sums[d].row_range(0, live));
    }
    const Forward<T> step{{order.first, order.length, t, live},
                          hidden,
                          weights.bias,
                          activations.gates.as<T>(),
                          activations.cells,
                          activations.previous.as<T>(),
                          activations.output.as<T>(),
                          {sums[0], sums[1]},
                          {states[0], states[1]}};
    // Gates are read and written, cells, h, and h once more for the next step and for the gradient of R.
    const double bytes = kernel::bytes_of<float, float, float, float, float, float>(directions * live * hidden) +
                         kernel::bytes_of<T>(directions * live * hidden * (2 * gates_of_cell + 3));
    for_cells({"bert_hpc::ops::lstm_forward", bytes}, directions * live, hidden, step);
  }
}

template <class T>
void backward_in(MatrixProduct& products, const LstmWeights& weights, const LengthOrder& order,
                 const LstmActivations& activations, Tensor<const T> d_output, Tensor<T> d_gates,
                 core::Workspace& scratch) {
  const core::ScratchScope scope(scratch);
  const std::int64_t hidden = activations.cells.columns / directions, most = order.live[0];
  Tensor<float> d_states[directions], d_cells[directions];
  Tensor<T> d_step[directions];
  for (int d = 0; d < directions; ++d) {
    d_states[d] = scratch.take<float>(most, hidden);
    d_cells[d] = scratch.take<float>(most, hidden);
    d_step[d] = scratch.take<T>(most, gates_of_cell * hidden);
  }
  for (std::int64_t t = order.steps - 1; t >= 0; --t) {
    const std::int64_t live = order.live[t], going_on = t + 1 < order.steps ? order.live[t + 1] : 0;
    for (int d = 0; d < directions && going_on > 0; ++d) {
      products.backward_input(d_step[d].row_range(0, going_on), weights.recurrent[d],
                              d_states[d].row_range(0, going_on), Write::replace);
    }
    const Backward<T> step{{order.first, order.length, t, live},
                           hidden,
                           going_on,
                           activations.gates.as<T>(),
                           activations.cells,
                           d_output,
                           d_gates,
                           {d_states[0], d_states[1]},
                           {d_cells[0], d_cells[1]},
                           {d_step[0], d_step[1]}};
    const double bytes = kernel::bytes_of<float, float, float, float, float>(directions * live * hidden) +
                         kernel::bytes_of<T>(directions * live * hidden * (3 * gates_of_cell + 1));
    for_cells({"bert_hpc::ops::lstm_backward", bytes}, directions * live, hidden, step);
  }
}

void require_shapes(const LstmWeights& weights, const LstmActivations& a) {
  const std::int64_t tokens = a.cells.rows, hidden = a.cells.columns / directions;
  const auto fits = [&](const ConstMatrix& x, std::int64_t of_hidden) {
    return x.rows == tokens && x.columns == of_hidden * hidden && x.type == a.gates.type;
  };
  core::require(fits(a.gates, directions * gates_of_cell) && fits(a.previous, directions),
                "lstm: activations of different shapes");
  for (const Tensor<const float>& r : weights.recurrent) {
    core::require(r.rows == gates_of_cell * hidden && r.columns == hidden, "lstm: weights of another shape");
  }
}

}  // namespace

std::int64_t lstm_scratch_bytes(std::int64_t hidden) {
  // The larger one is the backward pass': d_states, d_cells and d_step of both directions.
  return directions * (2 + gates_of_cell) * hidden * static_cast<std::int64_t>(sizeof(float));
}

void lstm_forward(MatrixProduct& products, const LstmWeights& weights, const LengthOrder& order,
                  const LstmActivations& activations, core::Workspace& scratch) {
  require_shapes(weights, activations);
  if (order.tokens < activations.cells.rows) {
    for (const Matrix& x : {activations.previous, activations.output}) detail::set_zero_rows(x);
  }
  if (order.steps == 0) return;
  core::with_type(activations.gates.type,
                  [&]<class T>() { forward_in<T>(products, weights, order, activations, scratch); });
}

void lstm_backward(MatrixProduct& products, const LstmWeights& weights, const LengthOrder& order,
                   const LstmActivations& activations, ConstMatrix d_output, Matrix d_gates, core::Workspace& scratch) {
  require_shapes(weights, activations);
  if (order.tokens < d_gates.rows) detail::set_zero_rows(d_gates);
  if (order.steps == 0) return;
  core::with_type(activations.gates.type, [&]<class T>() {
    backward_in<T>(products, weights, order, activations, d_output.as<T>(), d_gates.as<T>(), scratch);
  });
}

}  // namespace bert_hpc::ops
