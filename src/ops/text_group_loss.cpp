// The gradient at a text is a sum of its own embedding and that of its anchor, whose factors `scratch` holds: they are
// known before an embedding is replaced. Numbers of columns fall, so that columns which no later one reads are replaced
// after each.
#include "bert_hpc/ops/text_group_loss.hpp"

#include <cmath>

#include "bert_hpc/core/micro_batch.hpp"
#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

using core::Tensor;
using kernel::RowTeam;
using Kind = TextGroupLoss::Kind;

/// s(a, b) and its gradients: at a  across · b + at_a · a, at b  across · a + at_b · b.
struct Compared {
  float value, across, at_a, at_b;
};

KOKKOS_INLINE_FUNCTION float inverse_length(float squares) {
  constexpr float least_length = 1e-8f;
  const float length = std::sqrt(squares);
  return 1.0f / (length < least_length ? least_length : length);
}

KOKKOS_INLINE_FUNCTION Compared compare(const RowTeam& team, Similarity similarity, std::int64_t columns,
                                        const float* a, const float* b) {
  if (similarity == Similarity::euclidean) {
    const float squares = team.sum<float>(columns, [=](std::int64_t j) { return (a[j] - b[j]) * (a[j] - b[j]); });
    const float distance = std::sqrt(squares), inverse = distance == 0.0f ? 0.0f : 1.0f / distance;
    return {-distance, inverse, -inverse, -inverse};
  }
  const float ab = team.sum<float>(columns, [=](std::int64_t j) { return a[j] * b[j]; });
  if (similarity == Similarity::dot) return {ab, 1.0f, 0.0f, 0.0f};
  const float of_a = inverse_length(team.sum<float>(columns, [=](std::int64_t j) { return a[j] * a[j]; }));
  const float of_b = inverse_length(team.sum<float>(columns, [=](std::int64_t j) { return b[j] * b[j]; }));
  const float cosine = ab * of_a * of_b;
  return {cosine, of_a * of_b, -cosine * of_a * of_a, -cosine * of_b * of_b};
}

struct Options {
  Kind kind;
  Similarity similarity;
  float margin, scale;
};

/// Adds the loss of the first `columns`; replaces the columns from `kept` on.
struct Columns {
  std::int64_t columns, kept, replaced;
  bool is_first;
};

void add_columns(Tensor<const float> x, const std::int32_t* groups, std::int64_t count, const float* values,
                 const Options& options, const Columns& part, float* scratch, float* row_loss, Tensor<float> d_x) {
  kernel::for_rows(
      "bert_hpc::ops::text_group_loss", count, KOKKOS_LAMBDA(const RowTeam& team, std::int64_t group) {
        const std::int64_t anchor = groups[2 * group], positive = anchor + 1, end = groups[2 * group + 1];
        const float score = values[core::TextTargets::columns * anchor + 1], *const a = x.row(anchor);
        const bool is_trained = d_x.data != nullptr;
        const auto add = [&](std::int64_t text, const Compared& found, float weight) {
          if (!is_trained || !team.leads()) return;
          scratch[2 * text] += weight * found.across;
          scratch[2 * text + 1] += weight * found.at_b;
          scratch[2 * anchor + 1] += weight * found.at_a;
        };
        if (part.is_first && team.leads()) {
          for (std::int64_t text = anchor; text < end; ++text) {
            row_loss[text] = 0.0f;
            if (is_trained) scratch[2 * text] = scratch[2 * text + 1] = 0.0f;
          }
        }
        const Compared near = compare(team, options.similarity, part.columns, a, x.row(positive));
        float loss = 0.0f, weight = 0.0f;  // of the similarity to the positive
        if (options.kind == Kind::score) {
          const float error = near.value - score;
          loss = error * error;
          weight = 2.0f * options.scale * error;
        }
        const float share = 1.0f / static_cast<float>(end - positive - 1);
        for (std::int64_t text = positive + 1; options.kind != Kind::score && text < end; ++text) {
          const Compared far = compare(team, options.similarity, part.columns, a, x.row(text));
          float own = 0.0f;
          if (options.kind == Kind::triplet) {
            const float excess = far.value - near.value + options.margin;
            if (excess <= 0.0f) continue;  // not if it is NaN
            loss += share * excess;
            own = share * options.scale;
          } else {
            const float error = near.value - far.value - score;
            loss += share * error * error;
            own = -2.0f * share * options.scale * error;
          }
          add(text, far, own);
          weight -= own;
        }
        add(positive, near, weight);
        if (team.leads()) row_loss[anchor] += loss;
        if (!is_trained) return;
        team.meet();  // the factors are there, and each thread has read what others replace below
        team.each(part.replaced - part.kept, [=](std::int64_t column) {
          const std::int64_t j = part.kept + column;
          const float of_anchor = a[j];
          float d_anchor = 0.0f;
          if (j < part.columns) d_anchor = scratch[2 * anchor + 1] * of_anchor;
          for (std::int64_t text = positive; text < end; ++text) {
            const float own = x(text, j), across = scratch[2 * text], at_text = scratch[2 * text + 1];
            const bool counts = j < part.columns;
            d_anchor += counts ? across * own : 0.0f;
            d_x(text, j) = counts ? across * of_anchor + at_text * own : 0.0f;
          }
          d_x(anchor, j) = d_anchor;
        });
      });
}

}  // namespace

void text_group_loss(Tensor<const float> embeddings, const std::int32_t* groups, std::int64_t count,
                     const float* values, const TextGroupLoss& loss, float scale, float* scratch, float* row_loss,
                     Tensor<float> d_embeddings) {
  const Options options{loss.kind, loss.similarity, loss.margin, scale};
  const std::size_t parts = loss.dimensions.empty() ? 1 : loss.dimensions.size();
  const auto columns = [&](std::size_t part) {
    return loss.dimensions.empty() ? embeddings.columns : loss.dimensions[part];
  };
  for (std::size_t part = 0; part < parts; ++part) {
    const bool is_first = part == 0;
    add_columns(embeddings, groups, count, values, options,
                {.columns = columns(part),
                 .kept = part + 1 < parts ? columns(part + 1) : 0,
                 .replaced = is_first ? embeddings.columns : columns(part),
                 .is_first = is_first},
                scratch, row_loss, d_embeddings);
  }
}

}  // namespace bert_hpc::ops
