#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/attention.hpp"
#include "bert_hpc/ops/attention_dropout.hpp"
#include "support/attention_case.hpp"
#include "support/kernel_kinds.hpp"
#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using test::Matrix;
using test::Rows;

namespace {

/// The implementations in this build.
const std::vector<std::string>& kinds() {
  static const std::vector<std::string> gpu{"portable", "fused", "fused-split"};
  static const std::vector<std::string> cpu = test::kinds_under_test({"portable", "plain", "fused", "fused-baseline"});
  return core::is_gpu_build() ? gpu : cpu;
}
std::string a_kind() {
  return GENERATE(from_range(kinds()));
}

test::Vector<std::int64_t> falling_samples(std::size_t sequences) {
  test::Vector<std::int64_t> samples;
  for (std::size_t b = 0; b < sequences; ++b) samples.push_back(static_cast<std::int64_t>(100 - b));
  return samples;
}

/// One attention problem with its arrays. q, k and v are column ranges of one wide matrix, as a joined projection
/// leaves them.
struct Problem : test::AttentionRows {
  Problem(const std::vector<std::vector<int>>& query_positions, const std::vector<int>& lengths, std::int64_t heads_,
          std::int64_t head_dim, float probability)
      : AttentionRows(query_positions, lengths, heads_, head_dim, probability, falling_samples(lengths.size())),
        heads(heads_),
        q(Matrix::random(queries.view().count, hidden, 1, 1.0f, 3)),
        kv(Matrix::random(keys.view().count, 2 * hidden, 2)),
        d_out(Matrix::random(queries.view().count, hidden, 3)) {}
  core::Tensor<const float> k() const { return kv.tensor().column_range(0, hidden); }
  core::Tensor<const float> v() const { return kv.tensor().column_range(hidden, hidden); }
  ops::AttentionInputs inputs() const { return inputs_of(q, k(), v()); }

  std::int64_t heads;
  Matrix q, kv, d_out;
};

struct Results {
  explicit Results(const Problem& p)
      : out(p.q.rows, p.hidden, 2), lse(p.heads, p.q.rows), d_q(p.q.rows, p.hidden, 1), d_kv(p.kv.rows, 2 * p.hidden) {}
  Matrix out, lse, d_q, d_kv;
};

Results run(const std::string& kind, const Problem& p) {
  Results r(p);
  const auto attention = ops::make_attention(kind);
  CHECK(attention->name().substr(0, 5) == kind.substr(0, 5));
  attention->reserve(p.extents.max_length, p.extents.head_dim);
  attention->forward(p.inputs(), {r.out, r.lse, {}});
  attention->backward(
      p.inputs(), {r.out, r.lse, {}}, p.d_out,
      {r.d_q, r.d_kv.tensor().column_range(0, p.hidden), r.d_kv.tensor().column_range(p.hidden, p.hidden)});
  return r;
}

/// Forward and backward in double from the definition, with the whole score row in memory.
struct Reference {
  explicit Reference(const Problem& p)
      : rows(p.q.rows),
        hidden(p.hidden),
        out(size(rows, hidden)),
        d_q(size(rows, hidden)),
        d_kv(size(p.kv.rows, 2 * hidden)),
        lse(size(p.heads, rows)) {
    const test::HostOperands operands;
    const std::int64_t d = p.extents.head_dim;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t head = 0; head < p.heads; ++head) one_row(p, i, head, d);
    }
  }
  static std::size_t size(std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); }

  static double kept(const Problem& p, std::size_t sequence, std::int64_t head, std::int64_t position, std::int64_t j) {
    if (p.dropout.probability == 0.0f) return 1.0;
    const std::uint32_t threshold = ops::attention_dropout_threshold(p.dropout.probability);
    const auto bits =
        ops::dropout_bits(p.dropout, p.samples[sequence], static_cast<std::uint32_t>(head * (1 << 20) + position),
                          ops::attention_dropout_block(j));
    const bool keeps = ops::attention_dropout_keeps(bits, ops::attention_dropout_byte(j), threshold);
    return keeps ? 256.0 / (256.0 - threshold) : 0.0;
  }

  void one_row(const Problem& p, std::int64_t i, std::int64_t head, std::int64_t d) {
    const auto row = static_cast<std::size_t>(i);
    const auto sequence = static_cast<std::size_t>(p.queries.sequence[row]);
    const test::KeyRange range = p.keys_of(row);
    const std::int64_t begin = p.keys.offsets[sequence] + range.begin, length = range.end - range.begin;
    const std::int64_t h = head * d;
    const double scale = 1.0 / std::sqrt(static_cast<double>(d));
    const core::Tensor<const float> k = p.k(), v = p.v();
    std::vector<double> s(static_cast<std::size_t>(length)), probability(s), d_p(s);
    double total = 0.0, diagonal = 0.0, largest = -1e300;
    for (std::int64_t j = 0; j < length; ++j) {
      double& value = s[static_cast<std::size_t>(j)];
      for (std::int64_t c = 0; c < d; ++c) value += static_cast<double>(p.q(i, h + c)) * k(begin + j, h + c) * scale;
      largest = std::max(largest, value);
    }
    for (double value : s) total += std::exp(value - largest);
    lse[static_cast<std::size_t>(head * rows + i)] = largest + std::log(total);
    for (std::int64_t j = 0; j < length; ++j) {
      const auto at = static_cast<std::size_t>(j);
      const double keep = kept(p, sequence, head, p.queries.position[row], range.begin + j);
      probability[at] = std::exp(s[at] - largest) / total;
      for (std::int64_t c = 0; c < d; ++c) {
        const double d_o = p.d_out(i, h + c);
        out[static_cast<std::size_t>(i * hidden + h + c)] += keep * probability[at] * v(begin + j, h + c);
        d_p[at] += keep * d_o * v(begin + j, h + c);
        d_kv[static_cast<std::size_t>((begin + j) * 2 * hidden + hidden + h + c)] += keep * probability[at] * d_o;
      }
      diagonal += probability[at] * d_p[at];
    }
    for (std::int64_t j = 0; j < length; ++j) {
      const auto at = static_cast<std::size_t>(j);
      const double d_s = scale * probability[at] * (d_p[at] - diagonal);
      for (std::int64_t c = 0; c < d; ++c) {
        d_q[static_cast<std::size_t>(i * hidden + h + c)] += d_s * k(begin + j, h + c);
        d_kv[static_cast<std::size_t>((begin + j) * 2 * hidden + h + c)] += d_s * p.q(i, h + c);
      }
    }
  }

  std::int64_t rows, hidden;
  std::vector<double> out, d_q, d_kv, lse;
};

auto matrix_of(const std::vector<double>& values, std::int64_t columns) {
  return
      [&values, columns](std::int64_t i, std::int64_t j) { return values[static_cast<std::size_t>(i * columns + j)]; };
}

void check_results(const Results& r, const Problem& p, const Reference& reference) {
  // Scores below 6 are sums of head_dim ≤ 128 products: an error of 6·2⁻²³·√128 ≈ 8e-6 in the exponent, the same
  // relative error in a probability, values below 5 and a kept factor of 1/(1 − 0.5): 8e-5 at the worst.
  CHECK(test::largest_difference(r.out, matrix_of(reference.out, p.hidden)) < 3e-5);
  CHECK(test::largest_difference(r.lse, matrix_of(reference.lse, reference.rows)) < 1e-5);
  // d_p is a dot product below 50 with an error of 1e-5; sums of up to 300 such terms weighted by probabilities for
  // d_q, by probabilities of different rows (their sum over rows is about 1, up to 10 for favoured keys) for d_k and
  // d_v.
  CHECK(test::largest_difference(r.d_q, matrix_of(reference.d_q, p.hidden)) < 1e-4);
  CHECK(test::largest_difference(r.d_kv, matrix_of(reference.d_kv, 2 * p.hidden)) < 2e-4);
  CHECK(r.out.padding_untouched());
  CHECK(r.d_q.padding_untouched());
}

/// Every implementation with every mask.
void check_against_reference(Problem p) {
  for (const ops::AttentionMask mask : test::every_mask) {
    p.mask = mask;
    const Reference reference(p);
    for (const std::string& kind : kinds()) {
      CAPTURE(kind, mask.before, mask.after);
      check_results(run(kind, p), p, reference);
    }
  }
}

ops::AttentionMask a_mask() {
  return GENERATE(ops::AttentionMask::full(), ops::AttentionMask::causal(), ops::AttentionMask::window(24));
}

std::vector<std::vector<int>> all_positions(const std::vector<int>& lengths) {
  std::vector<std::vector<int>> positions;
  for (int length : lengths) {
    positions.emplace_back();
    for (int p = 0; p < length; ++p) positions.back().push_back(p);
  }
  return positions;
}

}  // namespace

TEST_CASE("attention of whole sequences against double") {
  const float probability = GENERATE(0.0f, 0.1f, 0.5f);
  const std::int64_t head_dim = GENERATE(1, 5, 16, 32, 64, 80, 128);
  const std::vector<int> lengths{1, 2, 7, 8, 17, 33};
  check_against_reference(Problem(all_positions(lengths), lengths, 3, head_dim, probability));
}

TEST_CASE("attention of long sequences against double") {
  const std::int64_t head_dim = GENERATE(32, 64);
  const std::vector<int> lengths{300, 65, 128};
  check_against_reference(Problem(all_positions(lengths), lengths, 2, head_dim, 0.1f));
}

TEST_CASE("memory for long sequences is enough for shorter ones of the same batch") {
  const std::int64_t head_dim = GENERATE(8, 32, 64);
  // Worked on by several threads, in memory that lies side by side.
  const std::vector<int> lengths{384, 400, 384, 383, 337, 384};
  check_against_reference(Problem(all_positions(lengths), lengths, 2, head_dim, 0.0f));
}

TEST_CASE("memory for attention never falls with the sequences' length") {
  const std::string kind = a_kind();
  for (const std::int64_t head_dim : {8, 32, 48, 64, 128}) {
    std::int64_t before = 0;
    for (std::int64_t length = 1; length <= 700; length += length < 380 ? 31 : 1) {
      const std::int64_t bytes = ops::make_attention(kind)->reserve(length, head_dim);
      REQUIRE(bytes >= before);
      before = bytes;
    }
  }
}

TEST_CASE("attention of padded sequences against double: padding has no weight and no gradient") {
  const float probability = GENERATE(0.0f, 0.1f);
  const std::int64_t head_dim = GENERATE(5, 32, 64, 128);
  const ops::AttentionMask mask = a_mask();
  const std::vector<int> padded{40, 40, 40, 40, 40, 40, 64, 130, 400};
  // Ends within a vector, between vectors, within and between blocks.
  for (const auto& real : {test::Vector<std::int32_t>{1, 16, 33, 40, 39, 8, 17, 97, 384},
                           test::Vector<std::int32_t>{15, 31, 32, 2, 7, 24, 64, 1, 5}}) {
    Problem p(all_positions(padded), padded, 2, head_dim, probability);
    p.real_keys = real;
    // Larger scores than any real key has, which must not be the largest of a row, nor overflow.
    for (std::size_t b = 0; b < padded.size(); ++b) {
      for (std::int64_t j = p.keys.offsets[b] + real[b]; j < p.keys.offsets[b + 1]; ++j) {
        for (std::int64_t c = 0; c < p.hidden; ++c) p.kv(j, c) *= 100.0f;
      }
    }
    p.mask = mask;
    const Reference reference(p);
    for (const std::string& kind : kinds()) {
      CAPTURE(kind, head_dim, probability, mask.before, mask.after);
      const Results r = run(kind, p);
      check_results(r, p, reference);
      std::int64_t not_zero = 0;
      for (std::size_t b = 0; b < padded.size(); ++b) {
        for (std::int64_t j = p.keys.offsets[b] + real[b]; j < p.keys.offsets[b + 1]; ++j) {
          for (std::int64_t c = 0; c < 2 * p.hidden; ++c) not_zero += r.d_kv(j, c) == 0.0f ? 0 : 1;
        }
      }
      CHECK(not_zero == 0);
    }
  }
}

TEST_CASE("padding of no tokens leaves the bits of attention") {
  const std::string kind = a_kind();
  const std::vector<int> lengths{40, 21, 130};
  Problem p(all_positions(lengths), lengths, 2, 32, 0.1f);
  p.mask = a_mask();
  const Results without = run(kind, p);
  p.real_keys = {40, 21, 130};
  const Results with = run(kind, p);
  CHECK(test::bits_of(without.out) == test::bits_of(with.out));
  CHECK(test::bits_of(without.d_q) == test::bits_of(with.d_q));
  CHECK(test::bits_of(without.d_kv) == test::bits_of(with.d_kv));
}

TEST_CASE("attention of selected query rows, some sequences without any") {
  const float probability = GENERATE(0.0f, 0.2f);
  check_against_reference(Problem({{0}, {}, {3, 8, 11}, {0, 69}}, {4, 9, 12, 70}, 2, 32, probability));
}

TEST_CASE("a selected row has the bits it has among all rows") {
  const std::string kind = a_kind();
  const std::vector<int> lengths{40, 21};
  Problem all(all_positions(lengths), lengths, 2, 32, 0.1f), some({{0, 39}, {5}}, lengths, 2, 32, 0.1f);
  all.mask = some.mask = a_mask();
  const int from[3] = {0, 39, 45};
  for (int i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < some.hidden; ++j) some.q(i, j) = all.q(from[i], j);
  }
  some.kv = all.kv;
  const Results r_all = run(kind, all), r_some = run(kind, some);
  for (int i = 0; i < 3; ++i) {
    CHECK(test::bits_of(r_all.out.tensor().row_range(from[i], 1)) ==
          test::bits_of(r_some.out.tensor().row_range(i, 1)));
  }
}

TEST_CASE("a sequence's attention does not depend on the others of the batch") {
  const std::string kind = a_kind();
  Problem pair(all_positions({50, 23}), {50, 23}, 2, 64, 0.1f), alone(all_positions({23}), {23}, 2, 64, 0.1f);
  alone.samples[0] = pair.samples[1];
  alone.mask = pair.mask = a_mask();
  for (std::int64_t i = 0; i < 23; ++i) {
    for (std::int64_t j = 0; j < 128; ++j) {
      alone.q(i, j) = pair.q(50 + i, j);
      alone.d_out(i, j) = pair.d_out(50 + i, j);
    }
    for (std::int64_t j = 0; j < 256; ++j) alone.kv(i, j) = pair.kv(50 + i, j);
  }
  const Results a = run(kind, alone), b = run(kind, pair);
  CHECK(test::bits_of(a.out) == test::bits_of(b.out.tensor().row_range(50, 23)));
  CHECK(test::bits_of(a.d_q) == test::bits_of(b.d_q.tensor().row_range(50, 23)));
  CHECK(test::bits_of(a.d_kv) == test::bits_of(b.d_kv.tensor().row_range(50, 23)));
}

TEST_CASE("attention survives large scores") {
  const std::string kind = a_kind();
  Problem p(all_positions({20}), {20}, 1, 32, 0.0f);
  for (float& value : p.q.values) value *= 100.0f;
  const Results r = run(kind, p);
  const Reference reference(p);
  // Scores up to 600 with an error of 600·2⁻²³·6 = 4e-4 in the exponent.
  CHECK(test::largest_difference(r.out, matrix_of(reference.out, p.hidden)) < 2e-3);
}

TEST_CASE("attention's gradient against finite differences") {
  const std::string kind = a_kind();
  Problem p(all_positions({6, 3}), {6, 3}, 2, 8, 0.3f);
  p.mask = a_mask();
  const Results r = run(kind, p);
  // Of Σ out ∘ d_out, in double through the reference, by central differences: exact to h² + 1e-16/h.
  const auto value = [&p] {
    const Reference reference(p);
    double total = 0.0;
    for (std::int64_t i = 0; i < reference.rows; ++i) {
      for (std::int64_t j = 0; j < p.hidden; ++j) total += matrix_of(reference.out, p.hidden)(i, j) * p.d_out(i, j);
    }
    return total;
  };
  const auto check = [&](Matrix& input, const Matrix& gradient) {
    double worst = 0.0;
    for (std::int64_t i = 0; i < input.rows; ++i) {
      for (std::int64_t j = 0; j < input.columns; ++j) {
        const float kept = input(i, j);
        const float up = kept + 0x1p-8f, down = kept - 0x1p-8f;
        input(i, j) = up;
        const double above = value();
        input(i, j) = down;
        const double below = value();
        input(i, j) = kept;
        const double slope = (above - below) / (static_cast<double>(up) - down);
        worst = std::max(worst, std::abs(slope - gradient(i, j)));
      }
    }
    return worst;
  };
  // h² / 6 times a third derivative of about 10: 2.5e-5.
  CHECK(check(p.q, r.d_q) < 1e-4);
  CHECK(check(p.kv, r.d_kv) < 1e-4);
}

TEST_CASE("an unknown kind of attention is an input error") {
  CHECK_THROWS_AS(ops::make_attention("quantum"), core::Error);
}

TEST_CASE("heads on several ranks drop the same elements as heads on one rank") {
  const std::string kind = a_kind();
  const Problem all({{0, 2}, {0}, {0, 1, 2, 3, 4}}, {3, 1, 5}, 4, 8, 0.3f);
  const Results expected = run(kind, all);
  for (std::int64_t first = 0; first < 4; first += 2) {
    const auto columns = [&](core::Tensor<const float> x) { return x.column_range(8 * first, 16); };
    ops::AttentionExtents extents = all.extents;
    extents.heads = 2;
    extents.first_head = first;
    Matrix out(all.q.rows, 16), lse(2, all.q.rows), d_q(all.q.rows, 16), d_k(all.kv.rows, 16), d_v(all.kv.rows, 16);
    const auto attention = ops::make_attention(kind);
    attention->reserve(5, 8);
    attention->forward({extents, all.queries.view(), all.keys.view(), all.at_samples(), columns(all.q),
                        columns(all.k()), columns(all.v())},
                       {out, lse, {}});
    attention->backward({extents, all.queries.view(), all.keys.view(), all.at_samples(), columns(all.q),
                         columns(all.k()), columns(all.v())},
                        {out, lse, {}}, columns(all.d_out), {d_q, d_k, d_v});
    const auto same = [&](const Matrix& part, core::Tensor<const float> whole) {
      return test::floats_of(part) == test::floats_of(columns(whole));
    };
    CHECK(same(out, expected.out));
    CHECK(same(d_q, expected.d_q));
    CHECK(same(d_k, expected.d_kv.tensor().column_range(0, 32)));
    CHECK(same(d_v, expected.d_kv.tensor().column_range(32, 32)));
  }
}
