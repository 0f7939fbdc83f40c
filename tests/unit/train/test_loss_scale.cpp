// The rule of torch.amp.GradScaler. The sequence below was made with PyTorch 2.15: GradScaler(init_scale=1024,
// growth_factor=2, backoff_factor=0.5, growth_interval=3) on a parameter whose gradient is infinite in the steps marked
// so: get_scale() and the growth tracker after each update().
#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "bert_hpc/train/loss_scale.hpp"

using bert_hpc::train::LossScale;

TEST_CASE("the loss scale follows PyTorch's GradScaler") {
  struct Step {
    bool finite;
    double scale;
    int tracker;
  };
  const std::vector<Step> steps = {{true, 1024, 1}, {true, 1024, 2}, {false, 512, 0}, {true, 512, 1},  {true, 512, 2},
                                   {true, 1024, 0}, {true, 1024, 1}, {false, 512, 0}, {false, 256, 0}, {true, 256, 1},
                                   {true, 256, 2},  {true, 512, 0},  {true, 512, 1},  {true, 512, 2},  {true, 1024, 0},
                                   {true, 1024, 1}, {false, 512, 0}, {true, 512, 1}};
  LossScale scale({.initial = 1024, .growth_interval = 3});
  std::int64_t skipped = 0;
  for (const Step& step : steps) {
    CHECK(scale.may_back_off());
    scale.update(step.finite);
    skipped += step.finite ? 0 : 1;
    CHECK(scale.scale() == step.scale);
    CHECK(scale.state().growth_tracker == step.tracker);
    CHECK(scale.state().skipped == skipped);
  }
}

TEST_CASE("the loss scale has a floor, a ceiling, a state, and may be fixed") {
  LossScale scale({.initial = 3, .growth_interval = 1});
  scale.update(false);
  CHECK(scale.scale() == 1.5);
  CHECK(scale.may_back_off());
  scale.update(false);
  CHECK(scale.scale() == 1);
  CHECK(!scale.may_back_off());  // at the floor: the next one is an error
  for (int i = 0; i < 200; ++i) scale.update(true);
  CHECK(scale.scale() == 0x1p127);  // float's range

  LossScale other({.initial = 8});
  other.restore({.scale = 256, .growth_tracker = 1999, .skipped = 4});
  other.update(true);
  CHECK(other.scale() == 512);
  CHECK(other.state().skipped == 4);

  LossScale fixed({.initial = 8, .dynamic = false});
  CHECK(!fixed.may_back_off());
  fixed.restore({.scale = 256});
  for (int i = 0; i < 5000; ++i) fixed.update(true);
  CHECK(fixed.scale() == 8);

  LossScale none;
  none.update(true);
  CHECK(none.scale() == 1);
  CHECK(!none.may_back_off());
}
