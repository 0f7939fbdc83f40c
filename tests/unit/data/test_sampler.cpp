// The order of samples: bijections, blocks and windows, batches.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/batch_sampler.hpp"
#include "bert_hpc/data/sampler.hpp"

using namespace bert_hpc::data;
using Catch::Matchers::ContainsSubstring;

namespace {

std::vector<std::int64_t> epoch_of(Sampler& sampler, std::int64_t epoch) {
  sampler.set_epoch(epoch);
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < sampler.size(); ++i) order.push_back(sampler(i));
  return order;
}

bool is_permutation_of_all(std::vector<std::int64_t> order) {
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("permutations are bijections, at every size and key") {
  for (std::int64_t size = 1; size < 600; size += size < 70 ? 1 : 53) {
    for (std::uint64_t key = 0; key < 5; ++key) {
      const Permutation permutation(size, key);
      std::vector<std::int64_t> images;
      for (std::int64_t i = 0; i < size; ++i) images.push_back(permutation(i));
      CHECK(is_permutation_of_all(images));
    }
  }
}

TEST_CASE("each element goes everywhere equally often over the keys") {
  const std::int64_t size = 6;
  const int keys = 60000;
  std::vector<int> counts(36, 0);
  for (int key = 0; key < keys; ++key) {
    const Permutation permutation(size, static_cast<std::uint64_t>(key) * 0x9E3779B97F4A7C15ull);
    for (std::int64_t i = 0; i < size; ++i) ++counts[static_cast<std::size_t>(i * size + permutation(i))];
  }
  // Binomial(60000, 1/6): mean 10000, standard deviation 91; six of them for 36 counts.
  for (const int count : counts) CHECK(std::abs(count - 10000) < 6 * 91);
}

TEST_CASE("neighbours in the data are not neighbours in an epoch") {
  Sampler sampler(100000, {.seed = 5});
  const auto order = epoch_of(sampler, 3);
  int adjacent = 0;
  double correlation = 0;
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    adjacent += std::abs(order[i] - order[i + 1]) == 1;
    correlation += (static_cast<double>(order[i]) - 49999.5) * (static_cast<double>(i) - 49999.5);
  }
  CHECK(adjacent <= 12);  // Poisson with mean 2
  // Pearson's r has standard deviation 1/sqrt(n) = 0.0032.
  CHECK(std::abs(correlation / (1e5 * (1e10 - 1) / 12)) < 5 * 0.0032);
}

TEST_CASE("an epoch visits every sample once; epochs and seeds differ; file order is the file's") {
  for (const std::int64_t size : {1, 2, 63, 64, 65, 1000, 4096, 5000}) {
    for (const std::int64_t window : {64, 256, 100000}) {
      Sampler sampler(size, {.seed = 9, .block = 64, .window = window});
      const auto first = epoch_of(sampler, 0);
      CHECK(is_permutation_of_all(first));
      if (size < 63) continue;
      const auto second = epoch_of(sampler, 1);
      CHECK(is_permutation_of_all(second));
      CHECK(first != second);
      CHECK(first == epoch_of(sampler, 0));
      Sampler other(size, {.seed = 10, .block = 64, .window = window});
      CHECK(epoch_of(other, 0) != first);
    }
  }
  Sampler file(10, {.order = Order::file});
  CHECK(file(7) == 7);
}

TEST_CASE("a window touches few blocks, and the tail is anywhere") {
  Sampler sampler(64 * 100 + 17, {.seed = 1, .block = 64, .window = 640});
  std::set<std::int64_t> tail_windows;
  for (std::int64_t epoch = 0; epoch < 40; ++epoch) {
    const auto order = epoch_of(sampler, epoch);
    for (std::size_t begin = 0; begin < order.size(); begin += 640) {
      std::set<std::int64_t> blocks;
      for (std::size_t i = begin; i < std::min(begin + 640, order.size()); ++i) blocks.insert(order[i] / 64);
      CHECK(blocks.size() <=
            12);  // ten whole ones, shifted by the short block at most into one more, and the short one
    }
    tail_windows.insert((std::find(order.begin(), order.end(), 6400) - order.begin()) / 640);
  }
  CHECK(tail_windows.size() >= 7);  // of 11 windows, 40 draws
}

TEST_CASE("steps of an epoch") {
  CHECK(steps_per_epoch(10, 4, false) == 3);
  CHECK(steps_per_epoch(10, 4, true) == 2);
  CHECK(steps_per_epoch(8, 4, false) == 2);
  CHECK(steps_per_epoch(3, 4, false) == 1);
  CHECK(steps_per_epoch(3, 4, true) == 0);
}

TEST_CASE("too large a number of steps is refused with the allowed maximum") {
  CHECK(total_steps(0, 3, 7) == 21);
  CHECK(total_steps(5, 3, 7) == 5);
  CHECK(total_steps(0, static_cast<double>(most_steps / 7), 7) == most_steps / 7 * 7);
  CHECK(total_steps(most_steps, 0, 7) == most_steps);
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  const auto one_more = static_cast<double>(most_steps / 7 + 1);
  for (const auto& [steps, epochs] : {std::pair{largest, 0.0}, {0, 1e300}, {0, one_more}}) {
    try {
      total_steps(steps, epochs, 7);
      FAIL("accepted: " << steps << " steps, " << epochs << " epochs");
    } catch (const bert_hpc::core::Error& error) {
      CHECK(error.code() == bert_hpc::core::ExitCode::input);
      CHECK_THAT(error.what(), ContainsSubstring("[schedule] ") && ContainsSubstring("1,000,000,000,000 steps"));
      if (epochs > 0) CHECK_THAT(error.what(), ContainsSubstring("at most 142,857,142,857 epochs"));
    }
  }
}

TEST_CASE("a part of an epoch is rounded up to steps") {
  CHECK(total_steps(0, 2.5, 7) == 18);
  CHECK(total_steps(0, 3 * (1 + 1e-15), 7) == 21);  // of tokens divided by those of an epoch
  CHECK(total_steps(0, 1e-6, 7) == 1);
}

TEST_CASE("batches of an epoch hold every sample once, in every order, from any step on") {
  std::vector<std::int32_t> lengths(1003);
  for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = 1 + static_cast<std::int32_t>((i * 7919) % 97);
  for (const Order order : {Order::random, Order::file, Order::by_length}) {
    for (const bool drop_last : {false, true}) {
      BatchSamplerOptions options{
          .sampler = {.seed = 3, .order = order}, .global_batch = 16, .drop_last = drop_last, .group = 8};
      BatchSampler sampler(lengths, options);
      CHECK(sampler.schedule().steps_per_epoch() == (drop_last ? 62 : 63));
      std::vector<std::int64_t> all, batch;
      int smaller = 0;
      for (std::int64_t s = 0; s < sampler.schedule().steps_per_epoch(); ++s) {
        sampler.batch(sampler.schedule().steps_per_epoch() + s, batch);  // the second epoch
        smaller += batch.size() != 16;
        all.insert(all.end(), batch.begin(), batch.end());
        BatchSampler resumed(lengths, options);
        std::vector<std::int64_t> again;
        resumed.batch(sampler.schedule().steps_per_epoch() + s, again);
        CHECK(again == batch);
      }
      CHECK(smaller == (drop_last ? 0 : 1));
      std::sort(all.begin(), all.end());
      CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
      CHECK(all.size() == (drop_last ? 992u : 1003u));
    }
  }
}

TEST_CASE("batches by length hold like lengths, and come in random order") {
  std::vector<std::int32_t> lengths(4096);
  for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = 1 + static_cast<std::int32_t>((i * 7919) % 512);
  BatchSampler sampler(lengths, {.sampler = {.order = Order::by_length}, .global_batch = 16, .group = 64});
  std::vector<std::int64_t> batch, longest;
  std::int64_t spread = 0;
  for (std::int64_t s = 0; s < sampler.schedule().steps_per_epoch(); ++s) {
    sampler.batch(s, batch);
    const auto [low, high] = std::minmax_element(batch.begin(), batch.end(), [&](auto a, auto b) {
      return lengths[static_cast<std::size_t>(a)] < lengths[static_cast<std::size_t>(b)];
    });
    spread += lengths[static_cast<std::size_t>(*high)] - lengths[static_cast<std::size_t>(*low)];
    longest.push_back(lengths[static_cast<std::size_t>(*high)]);
  }
  // 64 batches share 512 lengths: about 8 in each; random batches of 16 would spread over 512·15/17 = 450.
  CHECK(spread / sampler.schedule().steps_per_epoch() < 16);
  CHECK_FALSE(std::is_sorted(longest.begin(), longest.begin() + 64));
}

TEST_CASE("an epoch without a step is refused") {
  const std::vector<std::int32_t> lengths(3, 5);
  CHECK_THROWS_AS(BatchSampler(lengths, {.sampler = {}, .global_batch = 4, .drop_last = true}), bert_hpc::core::Error);
}
