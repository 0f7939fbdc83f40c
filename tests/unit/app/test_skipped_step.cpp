#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <limits>

#include "app/engine/skipped_step.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a skipped step is reported with its samples, each file named once") {
  const auto location_of = [](std::int64_t sample) {
    return data::SampleLocation{sample < 10 ? "a.h5" : sample < 20 ? "b.h5" : "c.h5", sample % 10};
  };
  app::StepResult result;
  result.loss = -std::numeric_limits<double>::quiet_NaN();
  result.bad_samples = {4};
  CHECK(app::skipped_text(1234, result, location_of) ==
        "step 1,234 was skipped, as its loss is nan (a.h5, sequence 4)");
  result.bad_samples = {1, 3, 9, 12, 20, 21, 22, 23, 24, 25};
  CHECK(
      app::skipped_text(1, result, location_of) ==
      "step 1 was skipped, as its loss is nan (a.h5, sequences 1, 3, 9; b.h5, sequence 2; c.h5, sequences 0, 1, 2, 3; "
      "and 2 more)");
  result.loss = 0.5;
  result.gradient_norm = std::numeric_limits<double>::infinity();
  result.bad_samples = {7};
  CHECK(app::skipped_text(2, result, location_of) ==
        "step 2 was skipped, as its gradient norm is inf (the loss is finite, so any of these may be the reason: a.h5, "
        "sequence 7)");
}

TEST_CASE("the first skipped steps are listed, later ones counted") {
  using app::SkipReport;
  for (const std::int64_t skipped : {1, 2, 3}) CHECK(app::skip_report(skipped) == SkipReport::details);
  for (const std::int64_t skipped : {4, 10, 99, 101}) CHECK(app::skip_report(skipped) == SkipReport::nothing);
  for (const std::int64_t skipped : {100, 1200}) CHECK(app::skip_report(skipped) == SkipReport::count);
}

TEST_CASE("a run that skipped every step says so") {
  CHECK_THAT(app::nothing_trained_text(5), ContainsSubstring("All 5 steps were skipped") &&
                                               ContainsSubstring("not finite in each") &&
                                               ContainsSubstring("untrained"));
  CHECK_THAT(app::nothing_trained_text(1), ContainsSubstring("The only step was skipped"));
}

TEST_CASE("advice against divergence does not repeat settings of the input") {
  CHECK_THAT(app::divergence_advice(false, 0),
             ContainsSubstring("max_gradient_norm = 1.0)") && !ContainsSubstring("fp16"));
  CHECK_THAT(app::divergence_advice(true, 1), ContainsSubstring("a smaller optimizer.max_gradient_norm (it is 1)") &&
                                                  !ContainsSubstring("= 1.0") && ContainsSubstring("fp16"));
}
