// Most scores are below the last one of a full list, so a query's scores are compared with it in parts, by the part's
// maximum; only parts with a larger score are looked at one by one.
#include "bert_hpc/ops/best_rows.hpp"

#include <limits>

#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

constexpr float none = -std::numeric_limits<float>::infinity();
constexpr std::int64_t part = 256;  // scores

/// Puts a document behind all with the same or a larger score. The last one leaves the list.
KOKKOS_INLINE_FUNCTION void insert(float score, std::int32_t number, float* scores, std::int32_t* numbers,
                                   std::int64_t k) {
  std::int64_t index = k - 1;
  for (; index > 0 && scores[index - 1] < score; --index) {
    scores[index] = scores[index - 1];
    numbers[index] = numbers[index - 1];
  }
  scores[index] = score;
  numbers[index] = number;
}

}  // namespace

void clear_best_rows(const BestRows& best) {
  float* const scores = best.scores;
  std::int32_t* const numbers = best.numbers;
  kernel::for_flat(
      "bert_hpc::ops::clear_best_rows", best.queries * best.k, KOKKOS_LAMBDA(std::int64_t i) {
        scores[i] = none;
        numbers[i] = -1;
      });
}

void keep_best_rows(core::Tensor<const float> scores, std::int32_t first, const BestRows& best) {
  kernel::for_rows(
      {"bert_hpc::ops::keep_best_rows", kernel::bytes_of<float>(scores.size())}, scores.rows,
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t query) {
        const float* const from = scores.row(query);
        float* const kept = best.scores + query * best.k;
        std::int32_t* const numbers = best.numbers + query * best.k;
        for (std::int64_t begin = 0; begin < scores.columns; begin += part) {
          const float* const here = from + begin;
          const std::int64_t count = scores.columns - begin < part ? scores.columns - begin : part;
          const float largest = team.max<float>(count, none, [=](std::int64_t j) { return here[j]; });
          if (!(largest > kept[best.k - 1])) continue;
          if (team.leads()) {
            for (std::int64_t j = 0; j < count; ++j) {
              if (!(here[j] > kept[best.k - 1])) continue;
              insert(here[j], first + static_cast<std::int32_t>(begin + j), kept, numbers, best.k);
            }
          }
          team.meet();
        }
      });
}

}  // namespace bert_hpc::ops
