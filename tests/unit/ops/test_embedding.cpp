#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <array>
#include <cmath>
#include <memory>

#include "../src/ops/embedding_rows.hpp"
#include "../src/ops/strips.hpp"
#include "bert_hpc/ops/embedding.hpp"
#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using test::Matrix;
using test::Rows;

namespace {

/// A micro-batch with random ids; arrays stay alive in here.
struct Batch {
  Batch(const std::vector<int>& lengths, int vocabulary, int type_count) : rows(lengths) {
    std::mt19937 engine(3);
    for (std::size_t t = 0; t < rows.position.size(); ++t) {
      ids.push_back(static_cast<std::int32_t>(engine() % static_cast<unsigned>(vocabulary)));
      types.push_back(static_cast<std::int32_t>(engine() % static_cast<unsigned>(type_count)));
    }
    for (std::int32_t id = 0; id < vocabulary; ++id) {
      const std::size_t before = order.size();
      for (std::size_t t = 0; t < ids.size(); ++t) {
        if (ids[t] == id) order.push_back(static_cast<std::int32_t>(t));
      }
      if (order.size() == before) continue;
      unique.push_back(id);
      segments.push_back(static_cast<std::int32_t>(before));
    }
    segments.push_back(static_cast<std::int32_t>(order.size()));
    batch.sequences = static_cast<std::int64_t>(lengths.size());
    for (int length : lengths) batch.max_length = std::max<std::int64_t>(batch.max_length, length);
    batch.tokens = rows.view();
    batch.input_ids = ids.data();
    batch.token_type_ids = types.data();
    batch.sorted_ids = {static_cast<std::int64_t>(unique.size()), unique.data(), segments.data(), order.data()};
  }
  Rows rows;
  test::Vector<std::int32_t> ids, types, unique, segments, order;
  core::MicroBatch batch;
};

}  // namespace

TEST_CASE("embedding look-up and gradients") {
  for (const std::int64_t hidden : {1, 10, 64, 130}) {
    const Batch b({5, 1, 9, 200, 2}, 23, 2);
    const std::int64_t tokens = b.batch.tokens.count;
    const Matrix word = Matrix::random(23, hidden, 1), position = Matrix::random(256, hidden, 2),
                 type = Matrix::random(2, hidden, 3);
    Matrix y(tokens, hidden, 3);
    ops::embedding_forward(b.batch, word, position, type, y);
    bool equal = true;
    for (std::int64_t t = 0; t < tokens; ++t) {
      const auto row = static_cast<std::size_t>(t);
      for (std::int64_t j = 0; j < hidden; ++j) {
        equal = equal && y(t, j) == (word(b.ids[row], j) + position(b.rows.position[row], j)) + type(b.types[row], j);
      }
    }
    CHECK(equal);
    CHECK(y.padding_untouched());

    const Matrix d_y = Matrix::random(tokens, hidden, 4, 1.0f, 2);
    const Matrix start_word = Matrix::random(23, hidden, 5), start_position = Matrix::random(256, hidden, 6),
                 start_type = Matrix::random(2, hidden, 7);
    Matrix d_word(start_word), d_position(start_position), d_type(start_type);
    ops::embedding_backward(b.batch, d_y, d_word, d_position, d_type);
    const auto gradient = [&](const Matrix& start, const test::Vector<std::int32_t>& index) {
      return [&](std::int64_t row, std::int64_t j) {
        double sum = start(row, j);
        for (std::int64_t t = 0; t < tokens; ++t) {
          if (index[static_cast<std::size_t>(t)] == row) sum += d_y(t, j);
        }
        return sum;
      };
    };
    // At most 120 additions of partial sums below 50: 120·50·2⁻²⁴.
    CHECK(test::largest_difference(d_word, gradient(start_word, b.ids)) < 4e-4);
    CHECK(test::largest_difference(d_position, gradient(start_position, b.rows.position)) < 4e-4);
    CHECK(test::largest_difference(d_type, gradient(start_type, b.types)) < 4e-4);

    // One table alone, as where the others are frozen.
    const core::Tensor<float> none;
    Matrix word_alone(start_word), position_alone(start_position), type_alone(start_type);
    ops::embedding_backward(b.batch, d_y, word_alone, none, none);
    ops::embedding_backward(b.batch, d_y, none, position_alone, none);
    ops::embedding_backward(b.batch, d_y, none, none, type_alone);
    CHECK(test::bits_of(word_alone) == test::bits_of(d_word));
    CHECK(test::bits_of(position_alone) == test::bits_of(d_position));
    CHECK(test::bits_of(type_alone) == test::bits_of(d_type));
  }
}

TEST_CASE("a table of one token type is every token's") {
  constexpr std::int64_t hidden = 70;
  const Batch typed({5, 1, 9, 200, 2}, 23, 2);
  Batch untyped({5, 1, 9, 200, 2}, 23, 2);
  std::fill(untyped.types.begin(), untyped.types.end(), 0);
  const std::int64_t tokens = typed.batch.tokens.count;
  const Matrix word = Matrix::random(23, hidden, 1), position = Matrix::random(256, hidden, 2),
               type = Matrix::random(1, hidden, 3), d_y = Matrix::random(tokens, hidden, 4);
  const auto results = [&](const Batch& b) {
    Matrix y(tokens, hidden), later(tokens, hidden), d_word(23, hidden), d_position(256, hidden), d_type(1, hidden);
    for (Matrix* m : {&later, &d_word, &d_position, &d_type}) std::fill(m->values.begin(), m->values.end(), 0.0f);
    ops::embedding_forward(b.batch, word, position, type, y);
    ops::add_position_and_type(b.batch, 0, position, type, later);
    ops::embedding_backward(b.batch, d_y, d_word, d_position, d_type);
    return std::array{test::bits_of(y), test::bits_of(later), test::bits_of(d_type)};
  };
  CHECK(results(typed) == results(untyped));
}

TEST_CASE("an empty micro-batch adds nothing to embedding gradients") {
  const Batch b({}, 5, 1);
  Matrix d_word(5, 8), d_position(4, 8), d_type(1, 8);
  for (Matrix* m : {&d_word, &d_position, &d_type}) std::fill(m->values.begin(), m->values.end(), 1.0f);
  ops::embedding_forward(b.batch, d_word, d_position, d_type, Matrix(0, 8));
  ops::embedding_backward(b.batch, Matrix(0, 8), d_word, d_position, d_type);
  for (const Matrix* m : {&d_word, &d_position, &d_type})
    CHECK(m->values == test::Vector<float>(m->values.size(), 1.0f));
}

TEST_CASE("word embeddings in shards give the bits of the whole") {
  constexpr std::int64_t hidden = 70, vocabulary = 23;
  constexpr int ranks = 3;
  const Batch b({5, 1, 9, 100, 2}, vocabulary, 2);
  const std::int64_t tokens = b.batch.tokens.count;
  const Matrix word = Matrix::random(vocabulary, hidden, 1), position = Matrix::random(256, hidden, 2),
               type = Matrix::random(2, hidden, 3), d_y = Matrix::random(tokens, hidden, 4);
  Matrix expected(tokens, hidden), d_word(vocabulary, hidden), d_position(256, hidden), d_type(2, hidden);
  ops::embedding_forward(b.batch, word, position, type, expected);
  const auto clear = [](Matrix& m) { std::fill(m.values.begin(), m.values.end(), 0.0f); };
  clear(d_word), clear(d_position), clear(d_type);
  ops::embedding_backward(b.batch, d_y, d_word, d_position, d_type);

  Matrix sum(tokens, hidden), part(tokens, hidden), d_words(vocabulary, hidden);
  clear(sum), clear(d_words);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t begin = vocabulary * rank / ranks, count = vocabulary * (rank + 1) / ranks - begin;
    ops::word_embedding_forward(b.batch, word.tensor().row_range(begin, count), begin, part);
    for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += part.values[i];
    Matrix p(256, hidden), t(2, hidden);
    clear(p), clear(t);
    ops::embedding_backward(b.batch, d_y, d_words.tensor().row_range(begin, count), p, t, begin);
    CHECK(p.values == d_position.values);
    CHECK(t.values == d_type.values);
  }
  CHECK(d_words.values == d_word.values);
  for (const std::int64_t begin : {std::int64_t{0}, std::int64_t{40}}) {  // in two pieces of rows
    const std::int64_t count = begin == 0 ? 40 : tokens - 40;
    ops::add_position_and_type(b.batch, begin, position, type, sum.tensor().row_range(begin, count));
  }
  CHECK(sum.values == expected.values);
}

TEST_CASE("gradients of positions and words are added as a GPU's blocks do") {
  const test::HostOperands operands;
  // 40 sequences; words of about 100 tokens, which a block's warps share, and of few.
  std::vector<int> lengths;
  for (int b = 0; b < 40; ++b) lengths.push_back(1 + b * 7 % 23);
  Batch b(lengths, 5, 2);
  const std::int64_t tokens = b.batch.tokens.count, rows = b.batch.max_length + b.batch.sorted_ids.unique;
  REQUIRE(tokens > 4 * 100);
  for (const std::int64_t hidden : {1, 10, 64, 300}) {
    // Rows of 64 columns are read in whole packs, others element by element.
    const Matrix d_y = Matrix::random(tokens, hidden, 4, 1.0f, hidden == 64 ? 0 : 2);
    const Matrix start = Matrix::random(1, hidden, 5);
    double worst = 0;
    std::int64_t shared = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const ops::embedding_rows::Tokens of_row{b.batch, row};
      shared += ops::embedding_rows::warps_of(of_row.count()) > 1;
      Matrix gradient(start);
      ops::embedding_rows::add_row_serially<float>(of_row, d_y.tensor(), gradient.values.data());
      const auto belongs = [&](std::int64_t t) {
        const auto at = static_cast<std::size_t>(t);
        if (row < b.batch.max_length) return b.rows.position[at] == row;
        return b.ids[at] == b.unique[static_cast<std::size_t>(row - b.batch.max_length)];
      };
      for (std::int64_t j = 0; j < hidden; ++j) {
        double sum = start(0, j);
        for (std::int64_t t = 0; t < tokens; ++t) sum += belongs(t) ? static_cast<double>(d_y(t, j)) : 0.0;
        worst = std::max(worst, std::abs(gradient(0, j) - sum));
      }
    }
    CHECK((shared > b.batch.max_length && b.batch.sequences > ops::embedding_rows::most_of_a_warp));
    // At most 30 additions by a warp, 8 of warps and one of the gradient, of sums below 50: 39·50·2⁻²⁴.
    CHECK(worst < 1.2e-4);
  }
}

TEST_CASE("look-ups and gradients of types by packs, as a GPU's threads compute them") {
  namespace rows = ops::embedding_rows;
  const std::int64_t hidden = GENERATE(1, 10, 64, 130), type_count = GENERATE(1, 2, 3);
  const auto make_batch = [&] {
    return std::make_unique<Batch>(std::vector<int>{5, 1, 9, 200, 2}, 23, static_cast<int>(type_count));
  };
  const Matrix word = Matrix::random(23, hidden, 1), position = Matrix::random(256, hidden, 2),
               type = Matrix::random(type_count, hidden, 3);
  constexpr std::int64_t tokens = 217;
  const auto by_packs = [&](const auto& body) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t pack = 0; pack < ops::packs::count_of(hidden); ++pack) {
        body(t, pack * ops::packs::width, ops::packs::columns_of(pack, hidden));
      }
    }
  };
  const bool has_types = GENERATE(false, true);
  const core::Tensor<const float> none;
  Matrix y(tokens, hidden, 3), expected(tokens, hidden);
  ops::embedding_forward(make_batch()->batch, word, position, has_types ? type.tensor() : none, expected);
  const test::HostOperands operands;
  const auto of_host = make_batch();
  const Batch& b = *of_host;
  const rows::TypeRows types{b.batch.token_type_ids, type_count};
  const core::Tensor<const float> no_types = has_types ? type.tensor() : none;
  by_packs(rows::EmbeddingSum<float>{b.batch.input_ids, b.batch.tokens.position, types, word.tensor(),
                                     position.tensor(), no_types, y.tensor()});
  CHECK(test::bits_of(y) == test::bits_of(expected));
  CHECK(y.padding_untouched());
  // The words alone, then what follows.
  Matrix words(tokens, hidden, 3);
  by_packs(rows::WordEmbedding<float>{b.batch.input_ids, 0, word.tensor(), words.tensor()});
  by_packs(rows::EmbeddingSum<float>{nullptr, b.batch.tokens.position, types, none, position.tensor(), no_types,
                                     words.tensor()});
  CHECK(test::bits_of(words) == test::bits_of(expected));
  // Ids of another rank's share.
  by_packs(rows::WordEmbedding<float>{b.batch.input_ids, 4, word.tensor().row_range(4, 10), words.tensor()});
  std::int64_t wrong = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::int32_t id = b.ids[static_cast<std::size_t>(t)];
    for (std::int64_t j = 0; j < hidden; ++j) wrong += words(t, j) != (id >= 4 && id < 14 ? word(id, j) : 0.0f);
  }
  CHECK(wrong == 0);

  const Matrix d_y = Matrix::random(tokens, hidden, 4, 1.0f, 2);
  Matrix d_type(type_count, hidden);
  for (std::int64_t first = 0; first < type_count; first += 2) {
    for (std::int64_t strip = 0; strip < ops::packs::strips_of(hidden); ++strip) {
      ops::packs::serial_strip<2>(strip, tokens, hidden, rows::TypeTerm<float>{d_y.tensor(), types, first},
                                  [&](std::int64_t j, int kind, float total) {
                                    if (first + kind < type_count) d_type(first + kind, j) = total;
                                  });
    }
  }
  // 217 tokens in 256 threads: 2 additions in a warp, 8 of warps and 8 of parts, of sums below 50: 18·50·2⁻²⁴.
  CHECK(test::largest_difference(d_type, [&](std::int64_t row, std::int64_t j) {
          double sum = 0.0;
          for (std::int64_t t = 0; t < tokens; ++t) {
            sum += b.types[static_cast<std::size_t>(t)] == row ? static_cast<double>(d_y(t, j)) : 0.0;
          }
          return sum;
        }) < 6e-5);
}
