// Loss between attention scores; kernel_rows.hpp describes the threads of a row, here of a query or key and a head.
// Scores are computed again in each kernel. Equal operands have a loss and gradients of exactly 0.
#include "bert_hpc/ops/attention_scores.hpp"

#include <cmath>

#include "bert_hpc/core/error.hpp"
#include "column_group.hpp"
#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

using kernel::ColumnGroup, kernel::group_columns, kernel::group_width;

/// Queries and keys of one model.
template <class T>
struct Operands {
  Tensor<const T> q, k;
  std::int64_t head_dim;

  KOKKOS_INLINE_FUNCTION float product(const kernel::RowTeam& team, std::int64_t query, std::int64_t key,
                                       std::int64_t head) const {
    const T *const a = q.row(query) + head * head_dim, *const b = k.row(key) + head * head_dim;
    return team.sum<float>(head_dim,
                           [=](std::int64_t c) { return static_cast<float>(a[c]) * static_cast<float>(b[c]); });
  }
};

/// A work item: a token of a sequence, of which [begin, real) are real, and a head.
struct Item {
  std::int64_t token, head, begin, real;
};

template <class T>
struct Problem {
  std::int64_t heads;
  TokenRows rows;
  const std::int32_t* real;  // tokens of each sequence; null: all
  AttentionMask mask;
  Operands<T> student, teacher;
  float scale;  // 1 / √head_dim of the student
  float ratio;  // the teacher's scale / the student's: exactly 1 for equal ones, so that equal scores differ by 0

  KOKKOS_INLINE_FUNCTION Item item(std::int64_t number) const {
    const std::int64_t token = number / heads, sequence = rows.sequence[token], begin = rows.offsets[sequence];
    return {token, number % heads, begin, real != nullptr ? begin + real[sequence] : rows.offsets[sequence + 1]};
  }
  /// The keys of a query at `position`, counted from its sequence's first token, of `count` tokens.
  KOKKOS_INLINE_FUNCTION std::int64_t keys_begin(std::int64_t position, std::int64_t count) const {
    return mask.is_limited() ? mask.begin(position, count) : 0;
  }
  KOKKOS_INLINE_FUNCTION std::int64_t keys_end(std::int64_t position, std::int64_t count) const {
    return mask.is_limited() ? mask.end(position, count) : count;
  }
  /// The first query that attends to the key at `position`.
  KOKKOS_INLINE_FUNCTION std::int64_t first_query(std::int64_t position) const {
    return position > mask.after ? position - mask.after : 0;
  }
  KOKKOS_INLINE_FUNCTION float difference(const kernel::RowTeam& team, std::int64_t query, std::int64_t key,
                                          std::int64_t head) const {
    return scale * (student.product(team, query, key, head) - ratio * teacher.product(team, query, key, head));
  }
};

template <class T>
Operands<T> operands_of(const ConstMatrix& q, const ConstMatrix& k, std::int64_t heads) {
  return {q.as<T>(), k.as<T>(), q.columns / heads};
}

template <class T>
Problem<T> problem_of(const ScorePair& pair) {
  const AttentionInputs& in = pair.student;
  const auto own = static_cast<double>(in.q.columns), others = static_cast<double>(pair.teacher_q.columns);
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(in.extents.head_dim)));
  return {in.extents.heads,
          in.queries,
          in.real_keys,
          in.mask,
          operands_of<T>(in.q, in.k, in.extents.heads),
          operands_of<T>(pair.teacher_q, pair.teacher_k, in.extents.heads),
          scale,
          static_cast<float>(std::sqrt(own / others))};
}

/// Work of kernels that compute `products` such products over the pairs as those of scores, of student and teacher.
core::CallWork work_of(const ScorePair& pair, int products) {
  core::CallWork work = attention_work(pair.student, products, 1, 1);
  AttentionInputs teacher = pair.student;
  teacher.extents.head_dim = pair.teacher_q.columns / teacher.extents.heads;
  const core::CallWork more = attention_work(teacher, 1, 1, 1);
  work.flops += more.flops;
  work.bytes += more.bytes;
  return work;
}

// loss = weight / keys · Σ_j (s_ij − t_ij)²
template <class T>
void loss_in(const core::CallWork& work, const Problem<T>& problem, float weight, Tensor<float> row_loss) {
  const Problem<T> p = problem;
  kernel::for_rows(
      {"bert_hpc::ops::score_loss", work}, p.rows.count * p.heads,
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t number) {
        const auto [i, head, begin, real] = p.item(number);
        const std::int64_t first = begin + p.keys_begin(i - begin, real - begin);
        const std::int64_t end = begin + p.keys_end(i - begin, real - begin);
        float sum = 0.0f;
        for (std::int64_t j = first; i < real && j < end; ++j) {
          const float difference = p.difference(team, i, j, head);
          sum += difference * difference;
        }
        if (team.leads()) row_loss(head, i) = weight * sum / static_cast<float>(end - first);
      });
}

// d_q_i += factor · 2 / keys_i · Σ_j (s_ij − t_ij) · k_j / √head_dim
template <class T>
void add_query_gradient(const core::CallWork& work, const Problem<T>& problem, float factor, Tensor<T> d_q) {
  const Problem<T> p = problem;
  kernel::for_rows(
      {"bert_hpc::ops::add_score_gradient_q", work}, p.rows.count * p.heads,
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t number) {
        const auto [i, head, begin, real] = p.item(number);
        if (i >= real) return;
        const std::int64_t first = begin + p.keys_begin(i - begin, real - begin);
        const std::int64_t end = begin + p.keys_end(i - begin, real - begin);
        const float scale = 2.0f * factor * p.scale / static_cast<float>(end - first);
        for (std::int64_t c = 0; c < p.student.head_dim; c += group_columns) {
          const std::int64_t column = head * p.student.head_dim + c, width = group_width(p.student.head_dim, c);
          ColumnGroup group;
          for (std::int64_t j = first; j < end; ++j) {
            group.add(team, width, p.difference(team, i, j, head), p.student.k.row(j) + column);
          }
          group.add_to(team, width, scale, d_q.row(i) + column);
        }
      });
}

// d_k_j += factor · 2 · Σ_i (s_ij − t_ij) / keys_i · q_i / √head_dim
template <class T>
void add_key_gradient(const core::CallWork& work, const Problem<T>& problem, float factor, Tensor<T> d_k) {
  const Problem<T> p = problem;
  kernel::for_rows(
      {"bert_hpc::ops::add_score_gradient_k", work}, p.rows.count * p.heads,
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t number) {
        const auto [j, head, begin, real] = p.item(number);
        if (j >= real) return;
        const float scale = 2.0f * factor * p.scale;
        for (std::int64_t c = 0; c < p.student.head_dim; c += group_columns) {
          const std::int64_t column = head * p.student.head_dim + c, width = group_width(p.student.head_dim, c);
          ColumnGroup group;
          for (std::int64_t i = begin + p.first_query(j - begin); i < real; ++i) {
            const std::int64_t from = p.keys_begin(i - begin, real - begin), to = p.keys_end(i - begin, real - begin);
            if (from > j - begin) break;
            const float share = 1.0f / static_cast<float>(to - from);
            group.add(team, width, share * p.difference(team, i, j, head), p.student.q.row(i) + column);
          }
          group.add_to(team, width, scale, d_k.row(j) + column);
        }
      });
}

void require_shapes(const ScorePair& pair) {
  const AttentionInputs& in = pair.student;
  const bool has_all_rows = in.queries.count == in.keys.count && in.q.rows == in.queries.count &&
                            in.k.rows == in.q.rows && pair.teacher_q.rows == in.q.rows &&
                            pair.teacher_k.rows == in.q.rows;
  core::require(has_all_rows, "attention scores: queries and keys of all tokens");
  core::require(pair.teacher_q.columns % in.extents.heads == 0 && pair.teacher_k.columns == pair.teacher_q.columns &&
                    in.q.columns == in.extents.heads * in.extents.head_dim,
                "attention scores: columns of whole heads");
}

}  // namespace

void score_loss(const ScorePair& pair, float weight, Tensor<float> row_loss) {
  require_shapes(pair);
  core::with_type(pair.student.q.type,
                  [&]<class T>() { loss_in<T>(work_of(pair, 1), problem_of<T>(pair), weight, row_loss); });
}

void add_score_gradient(const ScorePair& pair, float factor, const Matrix& d_q, const Matrix& d_k) {
  require_shapes(pair);
  core::with_type(pair.student.q.type, [&]<class T>() {
    const Problem<T> problem = problem_of<T>(pair);
    add_query_gradient<T>(work_of(pair, 2), problem, factor, d_q.as<T>());
    add_key_gradient<T>(work_of(pair, 2), problem, factor, d_k.as<T>());
  });
}

}  // namespace bert_hpc::ops
