#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>

#include "bert_hpc/core/data_type.hpp"
#include "bert_hpc/ops/vector_math.hpp"

using namespace bert_hpc::ops;

namespace {

// The largest |approximate − exact| / scale over a grid that visits every binade's fine structure.
template <class Approximate, class Exact, class Scale>
double worst(double begin, double end, Approximate approximate, Exact exact, Scale scale) {
  double largest = 0;
  const int points = 400001;
  for (int i = 0; i < points; ++i) {
    const float x = static_cast<float>(begin + (end - begin) * i / (points - 1));
    const double error = std::abs(static_cast<double>(approximate(x)) - exact(static_cast<double>(x)));
    largest = std::max(largest, error / scale(static_cast<double>(x)));
  }
  return largest;
}

double phi(double x) {
  return std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
}
double normal(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}
double one(double) {
  return 1;
}
double exact_gelu(double x) {
  return x * normal(x);
}
double exact_slope(double x) {
  return normal(x) + x * phi(x);
}

// The largest |approximate − exact| / scale over every number of a 16-bit type in [begin, end).
template <class T, class Approximate, class Exact, class Scale>
double worst_of_all(double begin, double end, Approximate approximate, Exact exact, Scale scale) {
  double largest = 0;
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    T stored;
    stored.bits = static_cast<std::uint16_t>(bits);
    const float x = stored;
    if (!(x >= begin && x < end) || x == 0) continue;
    const double error = std::abs(static_cast<double>(approximate(x)) - exact(static_cast<double>(x)));
    largest = std::max(largest, error / scale(static_cast<double>(x)));
  }
  return largest;
}

}  // namespace

// Every bound is the one stated in the header, above the value measured.
TEST_CASE("fast_exp, erf and tanh keep the stated accuracy") {
  CHECK(worst(
            -87.2, 88, fast_exp, [](double x) { return std::exp(x); }, [](double x) { return std::exp(x); }) < 1.5e-7);
  CHECK(worst(
            -1, 1, fast_exp, [](double x) { return std::exp(x); }, [](double x) { return std::exp(x); }) < 1.5e-7);
  for (const double reach : {0.01, 1.0, 5.0}) {
    const auto erf = [](double x) { return std::erf(x); };
    const auto tanh = [](double x) { return std::tanh(x); };
    CHECK(worst(-reach, reach, fast_erf, erf, one) < 2e-7);
    CHECK(worst(reach / 1000, reach, fast_erf, erf, erf) < 3e-7);
    CHECK(worst(-2 * reach, 2 * reach, fast_tanh, tanh, one) < 2e-7);
    CHECK(worst(reach / 1000, reach, fast_tanh, tanh, tanh) < 3e-7);
  }
}

TEST_CASE("fast_log keeps the stated accuracy") {
  const auto exact = [](double x) { return std::log(x); };
  const auto magnitude = [](double x) { return std::max(1e-30, std::abs(std::log(x))); };
  CHECK(worst(1e-6, 0.9999, fast_log, exact, magnitude) < 2.5e-7);
  CHECK(worst(0.9, 0.99999988, fast_log, exact, magnitude) < 2.5e-7);
  CHECK(worst(1.0001, 1e6, fast_log, exact, magnitude) < 2.5e-7);
  CHECK(worst(1.2e-38, 1e-36, fast_log, exact, magnitude) < 2.5e-7);
  CHECK(fast_log(1.0f) == 0.0f);
}

TEST_CASE("sigmoid, SiLU and its derivative keep the stated accuracy") {
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto product = [&](double x) { return x * sigmoid(x); };
  const auto magnitude = [&](double x) { return std::max(1e-44, std::abs(product(x))); };
  const auto slope = [&](double x) { return sigmoid(x) * (1 + x * sigmoid(-x)); };
  for (const double reach : {0.1, 5.0, 87.0}) {
    CHECK(worst(-reach, reach, fast_sigmoid, sigmoid, sigmoid) < 3e-7);
    CHECK(worst(-reach, reach, silu, product, magnitude) < 4e-7);
    CHECK(worst(-reach, reach, silu_derivative, slope, one) < 1.2e-6);
  }
}

TEST_CASE("sine and cosine of turns keep the stated accuracy") {
  for (const double reach : {1.0, 1000.0}) {
    CHECK(worst(
              -reach, reach, [](float v) { return sine_cosine_of_turns(v).sine; },
              [](double v) { return std::sin(2 * M_PI * v); }, one) < 2e-7);
    CHECK(worst(
              -reach, reach, [](float v) { return sine_cosine_of_turns(v).cosine; },
              [](double v) { return std::cos(2 * M_PI * v); }, one) < 2e-7);
  }
}

TEST_CASE("gelu and its derivative keep the stated accuracy") {
  for (const double reach : {0.1, 3.0, 12.0}) {
    CHECK(worst(reach / 1000, reach, gelu, exact_gelu, [](double x) { return x; }) < 2e-7);
    CHECK(worst(-reach, -reach / 1000, gelu, exact_gelu, [](double x) { return -x; }) < 2e-7);
    CHECK(worst(-reach, reach, gelu_derivative, exact_slope, one) < 3e-7);
  }
  // In the tail the relative error is that of exp's argument, x²/2 · 2^-24, and a few roundings.
  CHECK(worst(-6, -1, gelu, exact_gelu, [](double x) { return -exact_gelu(x); }) < 18 * 6e-8 + 6e-7);
}

TEMPLATE_TEST_CASE("GELU in 16 bits keeps the stated accuracy for every number", "", bert_hpc::core::Bf16,
                   bert_hpc::core::Fp16) {
  const auto value = [](double begin, double end) {
    return worst_of_all<TestType>(begin, end, gelu_in_16_bits, exact_gelu,
                                  [](double x) { return std::abs(exact_gelu(x)); });
  };
  const auto slope = [](double begin, double end) {
    return worst_of_all<TestType>(begin, end, gelu_derivative_in_16_bits, exact_slope,
                                  [](double x) { return std::abs(exact_slope(x)); });
  };
  const double all = std::numeric_limits<float>::infinity();
  CHECK(std::log2(value(-4.3, all)) < -12.9);
  CHECK(std::log2(value(-6.0, -4.3)) < -12.4);
  CHECK(std::log2(value(-12.9, -6.0)) < -11.0);
  CHECK(std::log2(slope(-6.3, all)) < -12.7);
  CHECK(std::log2(slope(-13.0, -6.3)) < -10.7);
  CHECK(worst_of_all<TestType>(-all, -12.9, gelu_in_16_bits, exact_gelu, one) < 0x1p-122);
  CHECK(worst_of_all<TestType>(-all, -13.0, gelu_derivative_in_16_bits, exact_slope, one) < 0x1p-122);
}

TEST_CASE("special values pass through") {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(fast_exp(0.0f) == 1.0f);
  CHECK(fast_exp(-infinity) == 0.0f);
  CHECK(fast_exp(-100.0f) == 0.0f);
  CHECK(fast_exp(100.0f) == infinity);
  CHECK(fast_exp(infinity) == infinity);
  CHECK(fast_erf(0.0f) == 0.0f);
  CHECK(fast_erf(infinity) == 1.0f);
  CHECK(fast_erf(-infinity) == -1.0f);
  CHECK(fast_tanh(100.0f) == 1.0f);
  CHECK(fast_tanh(-infinity) == -1.0f);
  CHECK(fast_sigmoid(infinity) == 1.0f);
  CHECK(fast_sigmoid(-infinity) == 0.0f);
  CHECK(silu(1e30f) == 1e30f);
  CHECK(silu(-1e30f) == 0.0f);
  CHECK(silu_derivative(1e30f) == 1.0f);
  CHECK(silu_derivative(-1e30f) == 0.0f);
  CHECK(gelu(1e30f) == 1e30f);
  CHECK(gelu(0.0f) == 0.0f);
  CHECK(gelu(-13.3f) == 0.0f);
  CHECK(gelu(-1e30f) == 0.0f);
  CHECK(gelu_derivative(1e30f) == 1.0f);
  CHECK(gelu_derivative(-1e30f) == 0.0f);
  CHECK(gelu_in_16_bits(1e30f) == 1e30f);
  CHECK(gelu_in_16_bits(0.0f) == 0.0f);
  CHECK(gelu_in_16_bits(-1e30f) == 0.0f);
  CHECK(gelu_derivative_in_16_bits(1e30f) == 1.0f);
  CHECK(gelu_derivative_in_16_bits(-1e30f) == 0.0f);
  CHECK(std::isnan(gelu_in_16_bits(nan)));
  CHECK(std::isnan(gelu_derivative_in_16_bits(nan)));
  CHECK(std::isnan(fast_exp(nan)));
  CHECK(std::isnan(fast_erf(nan)));
  CHECK(std::isnan(fast_tanh(nan)));
  CHECK(std::isnan(fast_sigmoid(nan)));
  CHECK(std::isnan(silu(nan)));
  CHECK(std::isnan(gelu(nan)));
  CHECK(std::isnan(gelu_derivative(nan)));
}
