// The profile of a few steps: which steps, the sums over ranks, the log's table.
#include "app/report/kernel_profile.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>

#include "app/report/profile_table.hpp"
#include "bert_hpc/comm/mpi_communicator.hpp"

using namespace bert_hpc;

namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// The steps that are profiled of those from `first` on, one call in each; and the profile.
std::vector<std::int64_t> profiled(std::int64_t first, std::int64_t total, io::Profile& found) {
  const auto world = comm::make_self_communicator();
  app::KernelProfile profile(true);
  std::vector<std::int64_t> steps;
  for (std::int64_t step = first; step < total; ++step) {
    profile.begin(step, total);
    if (profile.observer() != nullptr) {
      steps.push_back(step);
      const core::ObserveCalls observed(profile.observer());
      const core::CallScope call(core::DeviceCall::product, "p", {2, 1});
    }
    profile.end();
    if (!profile.complete() && step + 1 < total) continue;
    if (profile.pending()) found = profile.take(*world);
  }
  return steps;
}

}  // namespace

TEST_CASE("a profile begins with the third step of a start and has at most twenty") {
  io::Profile found;
  CHECK(profiled(0, 100, found).size() == 20);
  CHECK(found.first_step == 3);
  CHECK(found.steps == 20);
  REQUIRE(found.rows.size() == 1);
  CHECK(found.rows[0].calls == 20);
  CHECK(found.rows[0].flops == 40);
  CHECK(found.rows[0].kind == "products");
  CHECK(found.rows[0].seconds_avg <= found.seconds);
  CHECK(found.cost > 0);
  CHECK(profiled(50, 60, found) == std::vector<std::int64_t>{52, 53, 54, 55, 56, 57, 58, 59});  // resumed
  CHECK(found.first_step == 53);
  CHECK(profiled(0, 2, found) == std::vector<std::int64_t>{1});
  CHECK(profiled(0, 1, found) == std::vector<std::int64_t>{0});
}

TEST_CASE("no step is profiled unasked") {
  app::KernelProfile profile(false);
  profile.begin(5, 10);
  CHECK(profile.observer() == nullptr);
  profile.end();
  CHECK_FALSE(profile.pending());
}

TEST_CASE("a profile over ranks has sums of work, extremes of time, and the longest first") {
  const io::Profile all = app::profile_of_all({
      {.seconds = 2,
       .cost = 0.1,
       .calls = {{"forward", "kernels", "k", 3, 0.5, unknown, 10}, {"", "waits", "w", 1, unknown, unknown, unknown}}},
      {.seconds = 4,
       .cost = 0.3,
       .calls = {{"forward", "products", "p", 2, 1.5, 8, 4}, {"forward", "kernels", "k", 5, 0.25, 1, 30}}},
  });
  CHECK(all.ranks == 2);
  CHECK(all.seconds == 3);
  CHECK(all.cost == 0.2);
  REQUIRE(all.rows.size() == 3);
  CHECK(all.rows[0].name == "p");
  CHECK(all.rows[0].seconds_min == 0);  // the first rank has none
  CHECK(all.rows[0].seconds_avg == 0.75);
  CHECK(all.rows[0].seconds_max == 1.5);
  CHECK(all.rows[0].flops == 8);
  CHECK(all.rows[1].name == "k");
  CHECK(all.rows[1].calls == 8);
  CHECK(all.rows[1].seconds_min == 0.25);
  CHECK(all.rows[1].bytes == 40);
  CHECK(std::isnan(all.rows[1].flops));
  CHECK(all.rows[2].name == "w");
  CHECK(std::isnan(all.rows[2].seconds_max));
}

TEST_CASE("the table of a profile has shares, rates of known work per rank, and the rest") {
  io::Profile profile{.first_step = 3, .steps = 20, .ranks = 2, .seconds = 2, .cost = 0.02};
  profile.rows = {{"forward", "products", "native product", 1000, 0.5, 1.0, 1.5, 4e9, 2e9},
                  {"", "kernels", "bert_hpc::ops::copy", 40, 0.1, 0.5, 0.5, unknown, 3e9},
                  {"", "waits", "w", 20, unknown, unknown, unknown, unknown, unknown}};
  CHECK(app::profile_table(profile, "RUN/metrics.h5, /profile") ==
        "Profile of steps 3 to 22, over 2 ranks:\n"
        "  call                           calls      avg s  % time    GFLOP/s       GB/s\n"
        "  native product, forward        1,000     1.0000    50.0       2.00       1.00\n"
        "  copy                              40     0.5000    25.0                  3.00\n"
        "  outside of calls                         0.5000    25.0\n"
        "  time of the steps                        2.0000   100.0\n"
        "  10 steps/s; measuring took 1% of the time; all rows in RUN/metrics.h5, /profile");
  profile.steps = 1;
  for (int i = 0; i < 20; ++i)
    profile.rows.push_back({"", "kernels", std::to_string(i) + "th", 1, 0.01, 0.01, 0.01, unknown, unknown});
  const std::string text = app::profile_table(profile, "path");
  CHECK(text.starts_with("Profile of step 3, "));
  CHECK(text.find("other calls") != std::string::npos);
  CHECK(text.find("9th") != std::string::npos);
  CHECK(text.find("10th") == std::string::npos);
}
