// Pooled outputs of a row's windows.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "bert_hpc/tasks/window_pooling.hpp"

using namespace bert_hpc;
using tasks::WindowPooling;

namespace {

std::vector<float> pooled(WindowPooling kind, const std::vector<std::vector<float>>& windows) {
  tasks::WindowPool pool(kind, 2);
  const std::vector<float> of_another_row = {100, -100};
  std::vector<float> outputs(2);
  pool.add(of_another_row);
  pool.finish(outputs);
  for (const std::vector<float>& window : windows) pool.add(window);
  CHECK(pool.windows() == std::ssize(windows));
  pool.finish(outputs);
  return outputs;
}

}  // namespace

TEST_CASE("outputs of a row are the mean, the largest or the first of its windows' outputs") {
  const std::vector<std::vector<float>> windows = {{1, -2}, {-3, 4}, {8, -5}};
  CHECK(pooled(WindowPooling::mean, windows) == std::vector<float>{2, -1});
  CHECK(pooled(WindowPooling::max, windows) == std::vector<float>{8, 4});
  CHECK(pooled(WindowPooling::first, windows) == std::vector<float>{1, -2});
}

TEST_CASE("a window whose output is not a number makes that output of the row none") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const WindowPooling kind : {WindowPooling::mean, WindowPooling::max}) {
    const std::vector<float> outputs = pooled(kind, {{1, 1}, {nan, 2}, {3, 3}});
    CHECK(std::isnan(outputs[0]));
    CHECK(outputs[1] > 1);
  }
}

TEST_CASE("words of the key name the kinds of pooling, the mean without one") {
  CHECK(tasks::window_pooling("") == WindowPooling::mean);
  CHECK(tasks::window_pooling("mean") == WindowPooling::mean);
  CHECK(tasks::window_pooling("max") == WindowPooling::max);
  CHECK(tasks::window_pooling("first") == WindowPooling::first);
  for (const char* task : {"classification", "multi_label", "regression"}) {
    CHECK(tasks::find(task)->find_key(tasks::windows_key) != nullptr);
  }
  CHECK(tasks::find("masked_lm")->find_key(tasks::windows_key) == nullptr);
}
