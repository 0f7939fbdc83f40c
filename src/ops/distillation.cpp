// Losses between a student's and a teacher's outputs; kernel_rows.hpp describes the threads of a row.
#include "bert_hpc/ops/distillation.hpp"

#include <cmath>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/vector_math.hpp"
#include "kernel.hpp"
#include "kernel_lists.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

using core::Tensor;

/// log Σ exp(x_j / T), so that log p_j = x_j / T − it.
template <class Value>
KOKKOS_INLINE_FUNCTION float log_sum(const kernel::RowTeam& team, std::int64_t count, float cold, const Value& x) {
  const float largest = team.max<float>(count, x(0), x);
  const float total = team.sum<float>(count, [=](std::int64_t j) { return fast_exp((x(j) - largest) * cold); });
  return largest * cold + std::log(total);
}

/// The loss of one distribution and of the squared differences, whose weight is `squares`; writes the gradient.
/// d_j = T · (softmax(x / T) − softmax(y / T)) · divergence + 2 · squares · (x_j − y_j)
template <class Student, class Teacher, class Write>
KOKKOS_INLINE_FUNCTION float soft_distribution(const kernel::RowTeam& team, std::int64_t count, const SoftTerms& terms,
                                               float squares, const Student& x, const Teacher& y, const Write& write) {
  const float cold = 1.0f / terms.temperature, slope = terms.divergence * terms.temperature;
  const float divergence = slope * terms.temperature;
  const float x_offset = log_sum(team, count, cold, x), y_offset = log_sum(team, count, cold, y);
  team.meet();  // each thread has read what one of them replaces below
  return team.sum<float>(count, [=](std::int64_t j) {
    const float at_x = x(j), at_y = y(j), difference = at_x - at_y;
    const float log_q = at_x * cold - x_offset, log_p = at_y * cold - y_offset, p = fast_exp(log_p);
    write(j, slope * (fast_exp(log_q) - p) + 2.0f * squares * difference);
    return divergence * p * (log_p - log_q) + squares * difference * difference;
  });
}

template <class T>
void classes_in(const SoftTerms& terms, Tensor<const T> student, Tensor<float> teacher, float* row_loss) {
  const float squares = terms.squares / static_cast<float>(student.columns);
  kernel::for_rows(
      {"bert_hpc::ops::soft_classes", kernel::bytes_of<T, float, float>(student.size())}, student.rows,
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t i) {
        const T* const x = student.row(i);
        float* const y = teacher.row(i);
        const float loss = soft_distribution(
            team, student.columns, terms, squares, [=](std::int64_t j) { return static_cast<float>(x[j]); },
            [=](std::int64_t j) { return y[j]; }, [=](std::int64_t j, float d) { y[j] = d; });
        if (team.leads()) row_loss[i] = loss;
      });
}

/// log(1 + exp(x)) without overflow.
KOKKOS_INLINE_FUNCTION float softplus(float x) {
  return (x > 0.0f ? x : 0.0f) + std::log1p(fast_exp(-std::abs(x)));
}

// KL = p · (softplus(−x) − softplus(−y)) + (1 − p) · (softplus(x) − softplus(y)) with p = σ(y), both over T
template <class T>
void names_in(const SoftTerms& terms, Tensor<const T> student, Tensor<float> teacher, float* row_loss) {
  const float share = 1.0f / static_cast<float>(student.columns), cold = 1.0f / terms.temperature;
  const float divergence = share * terms.divergence * terms.temperature * terms.temperature;
  const float slope = share * terms.divergence * terms.temperature, squares = share * terms.squares;
  kernel::for_rows(
      {"bert_hpc::ops::soft_names", kernel::bytes_of<T, float, float>(student.size())}, student.rows,
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t i) {
        const T* const x = student.row(i);
        float* const y = teacher.row(i);
        const float loss = team.sum<float>(student.columns, [=](std::int64_t j) {
          const float at_x = static_cast<float>(x[j]), at_y = y[j], difference = at_x - at_y;
          const float hot_x = at_x * cold, hot_y = at_y * cold;
          const float p = 1.0f / (1.0f + fast_exp(-hot_y)), q = 1.0f / (1.0f + fast_exp(-hot_x));
          y[j] = slope * (q - p) + 2.0f * squares * difference;
          return divergence *
                     (p * (softplus(-hot_x) - softplus(-hot_y)) + (1.0f - p) * (softplus(hot_x) - softplus(hot_y))) +
                 squares * difference * difference;
        });
        if (team.leads()) row_loss[i] = loss;
      });
}

template <class T>
void spans_in(const SoftTerms& terms, Tensor<const T> student, const std::int32_t* offsets, const std::int32_t* lengths,
              std::int64_t sequences, Tensor<float> teacher, float* row_loss) {
  SoftTerms half = terms;
  half.divergence = 0.5f * terms.divergence;
  kernel::for_rows(
      {"bert_hpc::ops::soft_spans", kernel::bytes_of<T, float, float>(student.size())}, sequences,
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t b) {
        const std::int64_t begin = offsets[b], rows = offsets[b + 1] - begin;
        const std::int64_t count = lengths != nullptr ? lengths[b] : rows;
        const float squares = 0.5f * terms.squares / static_cast<float>(count);
        float loss = 0.0f;
        for (int column = 0; column < 2; ++column) {
          loss += soft_distribution(
              team, count, half, squares,
              [=](std::int64_t j) { return static_cast<float>(student.row(begin + j)[column]); },
              [=](std::int64_t j) { return teacher.row(begin + j)[column]; },
              [=](std::int64_t j, float d) { teacher.row(begin + j)[column] = d; });
          team.each(rows - count, [=](std::int64_t j) { teacher.row(begin + count + j)[column] = 0.0f; });
        }
        team.each(rows, [=](std::int64_t j) { row_loss[begin + j] = j == 0 ? loss : 0.0f; });
      });
}

// With d = student − teacher, means over the P relevant and the N other candidates: the mean over pairs of
// (d_p − d_n)² is mean d_p² + mean d_n² − 2 · mean d_p · mean d_n; its gradient is 2 / P · (d_p − mean d_n) for a
// relevant one, 2 / N · (d_n − mean d_p) for another.
template <class T>
void lists_in(const SoftTerms& terms, Tensor<const T> student, const std::int32_t* lists, std::int64_t count,
              const float* relevant, Tensor<float> teacher, float* row_loss) {
  kernel::clear_lists("bert_hpc::ops::soft_lists", lists, count, teacher, row_loss);
  kernel::for_rows(
      {"bert_hpc::ops::soft_lists", kernel::bytes_of<T, float, float>(student.size())}, count,
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t q) {
        const std::int64_t begin = lists[2 * q], candidates = lists[2 * q + 1] - begin;
        const float* const is_right = relevant + begin;
        const auto x = [=](std::int64_t j) { return static_cast<float>(student.row(begin + j)[0]); };
        const auto y = [=](std::int64_t j) { return teacher.row(begin + j)[0]; };
        const auto right_sum = [=](const auto& term) {
          return team.sum<float>(candidates, [=](std::int64_t j) { return is_right[j] > 0.5f ? term(j) : 0.0f; });
        };
        const auto other_sum = [=](const auto& term) {
          return team.sum<float>(candidates, [=](std::int64_t j) { return is_right[j] > 0.5f ? 0.0f : term(j); });
        };
        const auto one = [](std::int64_t) { return 1.0f; };
        const auto difference = [=](std::int64_t j) { return x(j) - y(j); };
        const auto square = [=](std::int64_t j) { return (x(j) - y(j)) * (x(j) - y(j)); };
        const float right = right_sum(one), other = other_sum(one);
        const float margins = right > 0.0f && other > 0.0f ? terms.margins : 0.0f;
        const float of_right = margins > 0.0f ? margins / right : 0.0f;
        const float of_other = margins > 0.0f ? margins / other : 0.0f;
        const float mean_right = margins > 0.0f ? right_sum(difference) / right : 0.0f;
        const float mean_other = margins > 0.0f ? other_sum(difference) / other : 0.0f;
        float loss =
            of_right * right_sum(square) + of_other * other_sum(square) - 2.0f * margins * mean_right * mean_other;
        loss += soft_distribution(team, candidates, terms, terms.squares / static_cast<float>(candidates), x, y,
                                  [=](std::int64_t j, float d) {
                                    const float from = difference(j);
                                    teacher.row(begin + j)[0] =
                                        d + (is_right[j] > 0.5f ? 2.0f * of_right * (from - mean_other)
                                                                : 2.0f * of_other * (from - mean_right));
                                  });
        if (team.leads()) row_loss[begin] = loss;
      });
}

template <class T>
void as_floats_in(Tensor<const T> logits, Tensor<float> y) {
  kernel::map(
      "bert_hpc::ops::outputs_as_floats", logits, y, KOKKOS_LAMBDA(std::int64_t, float x) { return x; });
}

template <class T>
void add_in(float factor, Tensor<const float> gradient, Tensor<T> d_logits) {
  kernel::for_elements(
      {"bert_hpc::ops::add_soft_gradient", kernel::bytes_of<float, T, T>(d_logits.size())}, d_logits.rows,
      d_logits.columns, KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) {
        d_logits(i, j) = static_cast<float>(d_logits(i, j)) + factor * gradient(i, j);
      });
}

void require_shapes(const core::ConstMatrix& student, const core::ConstMatrix& teacher) {
  core::require(student.rows == teacher.rows && student.columns == teacher.columns,
                "distillation: student and teacher have other shapes");
}

}  // namespace

void soft_classes(const SoftTerms& terms, core::ConstMatrix student, Tensor<float> teacher, float* row_loss) {
  require_shapes(student, teacher);
  core::with_type(student.type, [&]<class T>() { classes_in<T>(terms, student.as<T>(), teacher, row_loss); });
}

// With x and y less their maxima: totals_0 = Σ exp(x_j / T), totals_1 = Σ exp(y_j / T),
// totals_2 = Σ exp(y_j / T) · (y_j − x_j) / T, totals_3 = Σ (difference of the outputs)²
void soft_class_shard_totals(const SoftTerms& terms, Tensor<const float> student, Tensor<const float> teacher,
                             Tensor<const float> maxima, Tensor<float> totals) {
  require_shapes(student, teacher);
  const std::int64_t columns = student.columns;
  const float cold = 1.0f / terms.temperature;
  kernel::for_rows(
      {"bert_hpc::ops::soft_class_shard_totals", kernel::bytes_of<float, float>(student.size())}, student.rows,
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t i) {
        const float *const x = student.row(i), *const y = teacher.row(i);
        const float x_largest = maxima(0, i), y_largest = maxima(1, i);
        const float of_student =
            team.sum<float>(columns, [=](std::int64_t j) { return fast_exp((x[j] - x_largest) * cold); });
        const float of_teacher =
            team.sum<float>(columns, [=](std::int64_t j) { return fast_exp((y[j] - y_largest) * cold); });
        const float difference = team.sum<float>(columns, [=](std::int64_t j) {
          const float below_x = x[j] - x_largest, below_y = y[j] - y_largest;
          return fast_exp(below_y * cold) * ((below_y - below_x) * cold);
        });
        const float squares = team.sum<float>(columns, [=](std::int64_t j) { return (x[j] - y[j]) * (x[j] - y[j]); });
        if (!team.leads()) return;
        totals(0, i) = of_student;
        totals(1, i) = of_teacher;
        totals(2, i) = difference;
        totals(3, i) = squares;
      });
}

// KL = totals_2 / totals_1 + log totals_0 − log totals_1; gradients are those of soft_distribution().
void soft_class_shards(const SoftTerms& terms, std::int64_t classes, Tensor<const float> student, Tensor<float> teacher,
                       Tensor<const float> maxima, Tensor<const float> totals, float* row_loss) {
  require_shapes(student, teacher);
  const std::int64_t columns = student.columns;
  const float cold = 1.0f / terms.temperature, slope = terms.divergence * terms.temperature;
  const float divergence = slope * terms.temperature, squares = terms.squares / static_cast<float>(classes);
  kernel::for_rows(
      {"bert_hpc::ops::soft_class_shards", kernel::bytes_of<float, float, float>(student.size())}, student.rows,
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t i) {
        const float* const x = student.row(i);
        float* const y = teacher.row(i);
        const float x_offset = maxima(0, i) * cold + std::log(totals(0, i));
        const float y_offset = maxima(1, i) * cold + std::log(totals(1, i));
        if (team.leads()) {
          row_loss[i] = divergence * (totals(2, i) / totals(1, i) + (std::log(totals(0, i)) - std::log(totals(1, i)))) +
                        squares * totals(3, i);
        }
        team.each(columns, [=](std::int64_t j) {
          const float q = fast_exp(x[j] * cold - x_offset), p = fast_exp(y[j] * cold - y_offset);
          y[j] = slope * (q - p) + 2.0f * squares * (x[j] - y[j]);
        });
      });
}

void soft_names(const SoftTerms& terms, core::ConstMatrix student, Tensor<float> teacher, float* row_loss) {
  require_shapes(student, teacher);
  core::with_type(student.type, [&]<class T>() { names_in<T>(terms, student.as<T>(), teacher, row_loss); });
}

void soft_spans(const SoftTerms& terms, core::ConstMatrix student, const std::int32_t* offsets,
                const std::int32_t* lengths, std::int64_t sequences, Tensor<float> teacher, float* row_loss) {
  require_shapes(student, teacher);
  core::with_type(student.type, [&]<class T>() {
    spans_in<T>(terms, student.as<T>(), offsets, lengths, sequences, teacher, row_loss);
  });
}

void soft_lists(const SoftTerms& terms, core::ConstMatrix student, const std::int32_t* lists, std::int64_t count,
                const float* relevant, Tensor<float> teacher, float* row_loss) {
  require_shapes(student, teacher);
  core::with_type(student.type,
                  [&]<class T>() { lists_in<T>(terms, student.as<T>(), lists, count, relevant, teacher, row_loss); });
}

void outputs_as_floats(core::ConstMatrix logits, Tensor<float> y) {
  require_shapes(logits, y);
  core::with_type(logits.type, [&]<class T>() { as_floats_in<T>(logits.as<T>(), y); });
}

void outputs_of_samples(Tensor<const float> all, const std::int64_t* sample, const std::int32_t* sequence,
                        Tensor<float> y) {
  kernel::for_elements(
      {"bert_hpc::ops::outputs_of_samples", kernel::bytes_of<float, float>(y.size())}, y.rows, y.columns,
      KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) { y(i, j) = all(sample[sequence[i]], j); });
}

void add_soft_gradient(float factor, Tensor<const float> gradient, core::Matrix d_logits) {
  core::with_type(d_logits.type, [&]<class T>() { add_in<T>(factor, gradient, d_logits.as<T>()); });
}

void mix_losses(float share, const float* soft, std::int64_t rows, float* loss) {
  kernel::for_flat(
      "bert_hpc::ops::mix_losses", rows,
      KOKKOS_LAMBDA(std::int64_t i) { loss[i] = (1.0f - share) * loss[i] + share * soft[i]; });
}

}  // namespace bert_hpc::ops
