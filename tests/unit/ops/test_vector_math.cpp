#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>

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
  const auto exact = [](double x) { return x * normal(x); };
  const auto slope = [](double x) { return normal(x) + x * phi(x); };
  for (const double reach : {0.1, 3.0, 12.0}) {
    CHECK(worst(reach / 1000, reach, gelu, exact, [](double x) { return x; }) < 2e-7);
    CHECK(worst(-reach, -reach / 1000, gelu, exact, [](double x) { return -x; }) < 2e-7);
    CHECK(worst(-reach, reach, gelu_derivative, slope, one) < 3e-7);
  }
  // In the tail the relative error is that of exp's argument, x²/2 · 2^-24, and a few roundings.
  CHECK(worst(-6, -1, gelu, exact, [&](double x) { return -exact(x); }) < 18 * 6e-8 + 6e-7);
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
  CHECK(gelu(1e30f) == 1e30f);
  CHECK(gelu(0.0f) == 0.0f);
  CHECK(gelu(-13.3f) == 0.0f);
  CHECK(gelu(-1e30f) == 0.0f);
  CHECK(gelu_derivative(1e30f) == 1.0f);
  CHECK(gelu_derivative(-1e30f) == 0.0f);
  CHECK(std::isnan(fast_exp(nan)));
  CHECK(std::isnan(fast_erf(nan)));
  CHECK(std::isnan(fast_tanh(nan)));
  CHECK(std::isnan(gelu(nan)));
  CHECK(std::isnan(gelu_derivative(nan)));
}
