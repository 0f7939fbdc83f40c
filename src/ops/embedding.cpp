// Embedding look-ups and their gradients. Backward is one launch on CPUs: a work item owns one row of one table (a
// strip of columns of it for token types, whose rows gather from every token) and adds its tokens in order. On CUDA
// devices see embedding_rows.hpp; types, with few rows of every token each, are sums over strips.
#include "bert_hpc/ops/embedding.hpp"

#include "embedding_rows.hpp"
#include "kernel.hpp"
#include "kernel_rows.hpp"
#include "kernel_strips.hpp"
#include "layer_norm_row.hpp"

namespace bert_hpc::ops {
namespace {

using embedding_rows::TypeRows;

// y_t = W[id_t] + P[position_t] + T[type_t]
template <class T>
void forward_in(const core::MicroBatch& batch, Tensor<const float> word, Tensor<const float> position,
                Tensor<const float> type, Tensor<T> y) {
  const kernel::Label label("bert_hpc::ops::embedding_forward", kernel::bytes_of<float, T>(y.size()));
  const std::int32_t* ids = batch.input_ids;
  const TypeRows types{batch.token_type_ids, type.rows};
  const std::int32_t* positions = batch.tokens.position;
#if BERT_HPC_WARPS
  kernel::for_packs(label, y.rows, y.columns,
                    embedding_rows::EmbeddingSum<T>{ids, positions, types, word, position, type, y});
#else
  if (position.rows == 0) {
    return kernel::for_elements(
        label, y.rows, y.columns,
        KOKKOS_LAMBDA(std::int64_t t, std::int64_t j) { y(t, j) = word(ids[t], j) + type(types(t), j); });
  }
  if (type.rows == 0) {
    return kernel::for_elements(
        label, y.rows, y.columns,
        KOKKOS_LAMBDA(std::int64_t t, std::int64_t j) { y(t, j) = word(ids[t], j) + position(positions[t], j); });
  }
  kernel::for_elements(
      label, y.rows, y.columns, KOKKOS_LAMBDA(std::int64_t t, std::int64_t j) {
        y(t, j) = word(ids[t], j) + position(positions[t], j) + type(types(t), j);
      });
#endif
}

// y_i = (y_i + P[position_t]) + T[type_t] with t = begin + i: in this order it is what embedding_forward() adds
template <class T>
void add_position_and_type_in(const core::MicroBatch& batch, std::int64_t begin, Tensor<const float> position,
                              Tensor<const float> type, Tensor<T> y) {
  const kernel::Label label("bert_hpc::ops::add_position_and_type", kernel::bytes_of<float, T, T>(y.size()));
  const TypeRows types{batch.token_type_ids + begin, type.rows};
  const std::int32_t* positions = batch.tokens.position + begin;
#if BERT_HPC_WARPS
  kernel::for_packs(label, y.rows, y.columns,
                    embedding_rows::EmbeddingSum<T>{nullptr, positions, types, {}, position, type, y});
#else
  if (position.rows == 0) {
    return kernel::for_elements(
        label, y.rows, y.columns,
        KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) { y(i, j) = y(i, j) + type(types(i), j); });
  }
  if (type.rows == 0) {
    return kernel::for_elements(
        label, y.rows, y.columns,
        KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) { y(i, j) = y(i, j) + position(positions[i], j); });
  }
  kernel::for_elements(
      label, y.rows, y.columns, KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) {
        y(i, j) = y(i, j) + position(positions[i], j) + type(types(i), j);
      });
#endif
}

/// Which row a work item owns, and how it adds tokens: the same for all three tables.
template <class T>
struct EmbeddingGradient {
  core::MicroBatch batch;
  Tensor<const T> d_y;                       // (tokens, hidden)
  Tensor<float> d_word, d_position, d_type;  // (vocabulary, hidden), (positions, hidden), (types, hidden)
  std::int64_t type_strips;
  std::int64_t first;  // id of d_word's first row

  static constexpr std::int64_t strip = kernel::on_gpu ? 8 : 64;

  /// Items for a row of the other two tables: on a GPU a strip of columns is one, on a CPU the row.
  KOKKOS_INLINE_FUNCTION std::int64_t items_of_row() const {
    return kernel::on_gpu ? kernel::divide_up(d_y.columns, strip) : 1;
  }

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t type_items = d_type.rows * type_strips;
    if (item < type_items) return type_row(item / type_strips, item % type_strips * strip);
    const std::int64_t parts = items_of_row(), position_or_word = (item - type_items) / parts;
    const std::int64_t first_strip = (item - type_items) % parts;
    const std::int64_t end = parts == 1 ? d_y.columns : (first_strip + 1) * strip;
    for (std::int64_t begin = first_strip * strip; begin < end; begin += strip) {
      if (position_or_word < batch.max_length) {
        position_row(position_or_word, begin);
      } else {
        word_row(position_or_word - batch.max_length, begin);
      }
    }
  }

  KOKKOS_INLINE_FUNCTION std::int64_t width(std::int64_t begin) const {
    return d_y.columns - begin < strip ? d_y.columns - begin : strip;
  }

  /// sums += d_y[t, begin …)
  KOKKOS_INLINE_FUNCTION void add_token(std::int64_t t, std::int64_t begin, float* sums) const {
    const T* row = d_y.row(t) + begin;
    const std::int64_t count = width(begin);
#pragma omp simd
    for (std::int64_t j = 0; j < count; ++j) sums[j] += row[j];
  }

  KOKKOS_INLINE_FUNCTION void store(const float* sums, float* row, std::int64_t begin) const {
    const std::int64_t count = width(begin);
#pragma omp simd
    for (std::int64_t j = 0; j < count; ++j) row[begin + j] += sums[j];
  }

  // d_T[type] += Σ d_y[t] over tokens of that type, in blocks of a fixed number of tokens
  KOKKOS_INLINE_FUNCTION void type_row(std::int64_t type, std::int64_t begin) const {
    const TypeRows types{batch.token_type_ids, d_type.rows};
    float total[strip] = {};
    for (std::int64_t block = 0; block < d_y.rows; block += kernel::sum_block_rows) {
      const std::int64_t end = block + kernel::sum_block_rows < d_y.rows ? block + kernel::sum_block_rows : d_y.rows;
      float partial[strip] = {};
      for (std::int64_t t = block; t < end; ++t) {
        if (types(t) == type) add_token(t, begin, partial);
      }
      for (std::int64_t j = 0; j < strip; ++j) total[j] += partial[j];
    }
    store(total, d_type.row(type), begin);
  }

  // d_P[p] += Σ d_y[offset_b + p] over the sequences b longer than p
  KOKKOS_INLINE_FUNCTION void position_row(std::int64_t p, std::int64_t begin) const {
    if (p >= d_position.rows) return;
    float sums[strip] = {};
    for (std::int64_t b = 0; b < batch.sequences; ++b) {
      const std::int64_t t = batch.tokens.offsets[b] + p;
      if (t < batch.tokens.offsets[b + 1]) add_token(t, begin, sums);
    }
    store(sums, d_position.row(p), begin);
  }

  // d_W[id − first] += Σ d_y[t] over the tokens t of that id
  KOKKOS_INLINE_FUNCTION void word_row(std::int64_t u, std::int64_t begin) const {
    const core::SortedIds& sorted = batch.sorted_ids;
    const std::int64_t row = sorted.ids[u] - first;
    if (row < 0 || row >= d_word.rows) return;
    float sums[strip] = {};
    for (std::int32_t s = sorted.segments[u]; s < sorted.segments[u + 1]; ++s) add_token(sorted.order[s], begin, sums);
    store(sums, d_word.row(row), begin);
  }
};

/// Bytes of gradients that are read, and of so many rows that they are added to.
template <class T>
double backward_bytes(std::int64_t rows, Tensor<const T> d_y) {
  return kernel::bytes_of<T>(d_y.size()) + kernel::bytes_of<float, float>(rows * d_y.columns);
}

#if BERT_HPC_WARPS
constexpr int row_threads = embedding_rows::warps * packs::warp_lanes;
constexpr int group_columns = packs::warp_lanes * packs::width;  // of a block
static_assert(row_threads == group_columns);                     // a thread adds up the warps' sums of a column

/// Gradient rows of words and positions, and the tokens that are added to them.
template <class T>
struct RowGradients {
  core::MicroBatch batch;
  Tensor<const T> d_y;
  Tensor<float> d_word, d_position;
  std::int64_t first;

  __device__ std::int64_t rows() const { return batch.max_length + batch.sorted_ids.unique; }

  /// Null: no gradient is wanted, or the row is of another rank's share.
  __device__ float* gradient(const embedding_rows::Tokens& tokens) const {
    if (tokens.is_position()) return tokens.row < d_position.rows ? d_position.row(tokens.row) : nullptr;
    const std::int64_t word = batch.sorted_ids.ids[tokens.word()] - first;
    return word >= 0 && word < d_word.rows ? d_word.row(word) : nullptr;
  }
};

/// Each warp of a block takes a row. The rows are far apart, so that those of many tokens (all positions, and words
/// that are neighbours in a vocabulary) are spread over the blocks.
template <class T>
__global__ void __launch_bounds__(row_threads, 4) add_rows(const RowGradients<T> of) {
  kernel::wait_for_earlier_kernels();
  __shared__ alignas(packs::Chunk) float parts[embedding_rows::warps][group_columns];
  __shared__ bool shares[embedding_rows::warps];
  const int lane = static_cast<int>(threadIdx.x) % packs::warp_lanes;
  const int warp = static_cast<int>(threadIdx.x) / packs::warp_lanes;
  const std::int64_t pack = std::int64_t{blockIdx.y} * packs::warp_lanes + lane, begin = pack * packs::width;
  const int columns = packs::columns_of(pack, of.d_y.columns);
  const auto row_of = [](int w) { return std::int64_t{blockIdx.x} + std::int64_t{w} * gridDim.x; };
  bool together = false;
  if (row_of(warp) < of.rows()) {
    const embedding_rows::Tokens tokens{of.batch, row_of(warp)};
    float* const gradient = of.gradient(tokens);
    const std::int64_t count = tokens.count();
    together = gradient != nullptr && embedding_rows::warps_of(count) > 1;
    if (gradient != nullptr && !together && columns > 0) {
      float before[packs::width], sums[packs::width];
      packs::load(gradient + begin, columns, before);
      embedding_rows::add_tokens<2>(tokens, count, 0, 1, of.d_y, pack, sums);  // most rows have one token or two
      for (int j = 0; j < packs::width; ++j) before[j] += sums[j];
      packs::store(before, columns, gradient + begin);
    }
  }
  if (lane == 0) shares[warp] = together;
  __syncthreads();
  for (int w = 0; w < embedding_rows::warps; ++w) {
    if (!shares[w]) continue;
    const embedding_rows::Tokens tokens{of.batch, row_of(w)};
    float sums[packs::width] = {};
    if (columns > 0)
      embedding_rows::add_tokens<4>(tokens, tokens.count(), warp, embedding_rows::warps, of.d_y, pack, sums);
    for (int j = 0; j < packs::width; ++j) parts[warp][lane * packs::width + j] = sums[j];
    __syncthreads();
    float total = parts[0][threadIdx.x];
    for (int other = 1; other < embedding_rows::warps; ++other) total += parts[other][threadIdx.x];
    const std::int64_t column = std::int64_t{blockIdx.y} * group_columns + threadIdx.x;
    if (column < of.d_y.columns) of.gradient(tokens)[column] += total;
    __syncthreads();
  }
}

/// Adds the gradients of words and positions.
template <class T>
void add_row_gradients(const core::MicroBatch& batch, Tensor<const T> d_y, Tensor<float> d_word,
                       Tensor<float> d_position, std::int64_t first) {
  const std::int64_t rows = batch.max_length + batch.sorted_ids.unique;
  if (rows == 0 || d_y.columns == 0) return;
  const std::int64_t blocks = kernel::divide_up(rows, embedding_rows::warps);
  const std::int64_t groups = kernel::divide_up(d_y.columns, group_columns);
  kernel::launch({"bert_hpc::ops::embedding_backward", backward_bytes<T>(rows, d_y)}, add_rows<T>,
                 {.blocks = dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(groups)), .threads = row_threads},
                 RowGradients<T>{batch, d_y, d_word, d_position, first});
}

// d_T[type] += Σ d_y[t] over tokens of that type, two types at a time
template <class T>
void add_type_gradients(const core::MicroBatch& batch, Tensor<const T> d_y, Tensor<float> d_type) {
  for (std::int64_t type = 0; type < d_type.rows; type += 2) {
    kernel::for_strips<2>(
        {"bert_hpc::ops::embedding_backward_types", kernel::bytes_of<T>(d_y.size())}, d_y.rows, d_y.columns,
        embedding_rows::TypeTerm<T>{d_y, {batch.token_type_ids, d_type.rows}, type},
        KOKKOS_LAMBDA(std::int64_t j, int kind, float total) {
          if (type + kind < d_type.rows) d_type(type + kind, j) += total;
        });
  }
}
#endif

// y_t = W[id_t − first], or 0
template <class T>
void word_forward_in(const core::MicroBatch& batch, Tensor<const float> word, std::int64_t first, Tensor<T> y) {
  const kernel::Label label("bert_hpc::ops::word_embedding_forward", kernel::bytes_of<float, T>(y.size()));
  const std::int32_t* ids = batch.input_ids;
#if BERT_HPC_WARPS
  kernel::for_packs(label, y.rows, y.columns, embedding_rows::WordEmbedding<T>{ids, first, word, y});
#else
  kernel::for_rows(
      label, y.rows, KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t t) {
        const std::int64_t row = ids[t] - first;
        T* out = y.row(t);
        if (row < 0 || row >= word.rows) {
          team.each(y.columns, [=](std::int64_t j) { out[j] = 0.0f; });
        } else {
          const float* in = word.row(row);
          team.each(y.columns, [=](std::int64_t j) { out[j] = in[j]; });
        }
      });
#endif
}

}  // namespace

void embedding_forward(const core::MicroBatch& batch, Tensor<const float> word, Tensor<const float> position,
                       Tensor<const float> type, Matrix y) {
  if (position.rows == 0 && type.rows == 0) return word_embedding_forward(batch, word, 0, y);
  core::with_type(y.type, [&]<class T>() { forward_in<T>(batch, word, position, type, y.as<T>()); });
}

void word_embedding_forward(const core::MicroBatch& batch, Tensor<const float> word, std::int64_t first, Matrix y) {
  core::with_type(y.type, [&]<class T>() { word_forward_in<T>(batch, word, first, y.as<T>()); });
}

void add_position_and_type(const core::MicroBatch& batch, std::int64_t begin, Tensor<const float> position,
                           Tensor<const float> type, Matrix y) {
  if (position.rows == 0 && type.rows == 0) return;
  core::with_type(y.type, [&]<class T>() { add_position_and_type_in<T>(batch, begin, position, type, y.as<T>()); });
}

void embedding_backward(const core::MicroBatch& batch, ConstMatrix d_y, Tensor<float> d_word, Tensor<float> d_position,
                        Tensor<float> d_type, std::int64_t first) {
  core::with_type(d_y.type, [&]<class T>() {
#if BERT_HPC_WARPS
    add_type_gradients(batch, d_y.as<T>(), d_type);
    add_row_gradients(batch, d_y.as<T>(), d_word, d_position, first);
#else
    const std::int64_t type_strips = kernel::divide_up(d_y.columns, EmbeddingGradient<T>::strip);
    const EmbeddingGradient<T> gradient{batch, d_y.as<T>(), d_word, d_position, d_type, type_strips, first};
    const std::int64_t rows = batch.max_length + batch.sorted_ids.unique;
    kernel::for_uneven_items({"bert_hpc::ops::embedding_backward", backward_bytes<T>(rows, d_y.as<T>())},
                             d_type.rows * type_strips + rows * gradient.items_of_row(), gradient);
#endif
  });
}

}  // namespace bert_hpc::ops
