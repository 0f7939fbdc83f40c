// Losses between hidden states; kernel_rows.hpp describes the threads of a row.
#include "bert_hpc/ops/hidden_states.hpp"

#include <cmath>

#include "bert_hpc/core/error.hpp"
#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

using core::Tensor;

// With n columns and cos = x·y / √(x·x · y·y), the gradient of 1 − cos is (x · (x·y / x·x) − y) / √(x·x · y·y). In this
// order loss and gradient of equal states are 0 in floats too. A state of zeros has the loss 1 and no gradient.
template <class T>
void loss_in(const StateTerms& terms, float weight, Tensor<const T> student, const core::TokenRows& rows,
             const std::int32_t* lengths, Tensor<T> teacher, float* row_loss) {
  const std::int64_t columns = student.columns;
  const std::int32_t *const sequence = rows.sequence, *const position = rows.position;
  const auto count = static_cast<float>(columns);
  kernel::for_rows(
      {"bert_hpc::ops::state_loss", kernel::bytes_of<T, T, T>(student.size())}, student.rows,
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t i) {
        const T* const x = student.row(i);
        T* const y = teacher.row(i);
        if (lengths != nullptr && position[i] >= lengths[sequence[i]]) {
          team.each(columns, [=](std::int64_t j) { y[j] = 0.0f; });
          if (team.leads()) row_loss[i] = 0.0f;
          return;
        }
        float loss = 0.0f, inverse = 0.0f, ratio = 0.0f;
        if (terms.cosine != 0.0f) {
          const float xy = team.sum<float>(
              columns, [=](std::int64_t j) { return static_cast<float>(x[j]) * static_cast<float>(y[j]); });
          const float xx = team.sum<float>(
              columns, [=](std::int64_t j) { return static_cast<float>(x[j]) * static_cast<float>(x[j]); });
          const float yy = team.sum<float>(
              columns, [=](std::int64_t j) { return static_cast<float>(y[j]) * static_cast<float>(y[j]); });
          const float norms = std::sqrt(xx * yy);
          const bool has_angle = norms > 0.0f;
          loss = terms.cosine * (1.0f - (has_angle ? xy / norms : 0.0f));
          inverse = has_angle ? terms.cosine * count / norms : 0.0f;
          ratio = has_angle ? xy / xx : 0.0f;
          team.meet();  // each thread has read what one of them replaces below
        }
        const float squares = team.sum<float>(columns, [=](std::int64_t j) {
          const float at_x = static_cast<float>(x[j]), at_y = static_cast<float>(y[j]), difference = at_x - at_y;
          y[j] = 2.0f * terms.squares * difference + inverse * (at_x * ratio - at_y);
          return difference * difference;
        });
        if (team.leads()) row_loss[i] = weight * (loss + terms.squares * squares / count);
      });
}

template <class T>
void add_in(float factor, Tensor<const T> gradient, Tensor<T> d_state) {
  kernel::for_elements(
      {"bert_hpc::ops::add_state_gradient", kernel::bytes_of<T, T, T>(d_state.size())}, d_state.rows, d_state.columns,
      KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) {
        d_state(i, j) = static_cast<float>(d_state(i, j)) + factor * static_cast<float>(gradient(i, j));
      });
}

}  // namespace

void state_loss(const StateTerms& terms, float weight, core::ConstMatrix student, const core::TokenRows& rows,
                const std::int32_t* lengths, core::Matrix teacher, float* row_loss) {
  core::require(student.rows == teacher.rows && student.columns == teacher.columns && student.rows == rows.count,
                "hidden states: student and teacher have other shapes");
  core::with_type(student.type, [&]<class T>() {
    loss_in<T>(terms, weight, student.as<T>(), rows, lengths, teacher.as<T>(), row_loss);
  });
}

void add_state_gradient(float factor, core::ConstMatrix gradient, core::Matrix d_state) {
  core::require(gradient.rows == d_state.rows && gradient.columns == d_state.columns,
                "hidden states: gradients have other shapes");
  core::with_type(d_state.type, [&]<class T>() { add_in<T>(factor, gradient.as<T>(), d_state.as<T>()); });
}

}  // namespace bert_hpc::ops
