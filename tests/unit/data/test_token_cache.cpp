// Tokens that come through a cache: the same as were written, however few units it holds and however many processes
// share it; units that are in use are read once.
#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "bert_hpc/data/token_cache.hpp"

using bert_hpc::data::TokenCache;
using bert_hpc::data::TokenLayout;

namespace {

constexpr std::int64_t unit = 8;
const std::vector<std::int64_t> file_tokens = {13, 0, 8, 1, 40};  // 2 + 0 + 1 + 1 + 5 units
constexpr int all_units = 9;
const TokenLayout layouts[] = {{false, false}, {false, true}, {true, false}, {true, true}};

std::int32_t id_of(const TokenLayout& layout, int file, std::int64_t token) {
  return static_cast<std::int32_t>((layout.wide ? 70000 : 61496) + 1000 * file + token);
}

/// A cache of so many units, in memory that several may share.
struct Shared {
  TokenLayout layout;
  std::vector<std::byte> memory;
  std::atomic<int> reads = 0, failures_left = 0;

  Shared(const TokenLayout& kept, int units, int processes)
      : layout(kept), memory(static_cast<std::size_t>(size(kept, units, processes)) + 64) {}

  static std::int64_t size(const TokenLayout& layout, int units, int processes) {
    return TokenCache::bytes(file_tokens, layout, unit, units * unit * layout.token_bytes(), processes);
  }
  std::unique_ptr<TokenCache> cache() {
    void* begin = memory.data();
    std::size_t space = memory.size();
    std::align(64, space - 64, begin, space);
    const std::span<std::byte> aligned(static_cast<std::byte*>(begin), memory.size() - 64);
    return std::make_unique<TokenCache>(
        file_tokens, layout, unit, aligned,
        [this](int file, std::int64_t from, std::span<std::int32_t> ids, std::span<std::uint8_t> types) {
          ++reads;
          if (failures_left > 0 && failures_left-- > 0) throw std::runtime_error("damaged");
          for (std::size_t i = 0; i < ids.size(); ++i)
            ids[i] = id_of(layout, file, from + static_cast<std::int64_t>(i));
          for (std::size_t i = 0; i < types.size(); ++i) types[i] = static_cast<std::uint8_t>(ids[i] % 2);
        });
  }
};

bool is_right(TokenCache& cache, const TokenLayout& layout, int file, std::int64_t begin, std::int64_t length) {
  std::int32_t ids[64], types[64];
  cache.copy(file, begin, length, ids, types);
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int32_t id = id_of(layout, file, begin + i);
    if (ids[i] != id || types[i] != (layout.types ? id % 2 : 0)) return false;
  }
  return true;
}

/// Random ranges.
bool are_right(TokenCache& cache, const TokenLayout& layout, int copies, unsigned seed) {
  std::mt19937 random(seed);
  const int files[] = {0, 2, 3, 4};
  for (int i = 0; i < copies; ++i) {
    const int file = files[random() % 4];
    const std::int64_t tokens = file_tokens[static_cast<std::size_t>(file)];
    const auto begin = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(tokens));
    const auto length = 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(tokens - begin));
    if (!is_right(cache, layout, file, begin, length)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a cache of tokens has all ranges, whatever it holds") {
  for (const TokenLayout& layout : layouts) {
    for (const int units : {0, 2, 5, 100}) {
      Shared shared(layout, units, 1);
      CHECK(are_right(*shared.cache(), layout, 2000, 1));
      CHECK(shared.reads >= all_units);
      if (units == 100) CHECK(shared.reads == all_units);
    }
  }
}

TEST_CASE("a unit that is used again and again stays while others pass") {
  Shared shared(layouts[1], 4, 1);
  const auto cache = shared.cache();
  bool right = true;
  for (int round = 0; round < 10; ++round) {
    for (int file4 = 0; file4 < 5; ++file4) {
      right = right && is_right(*cache, layouts[1], 2, 0, 8) && is_right(*cache, layouts[1], 4, 8 * file4, 8);
    }
  }
  CHECK(right);
  // The five others pass through three slots, so that each is read each time.
  CHECK(shared.reads == 1 + 10 * 5);
}

TEST_CASE("caches of one memory share what was read") {
  Shared shared(layouts[3], 100, 2);
  const auto first = shared.cache(), second = shared.cache();
  CHECK(are_right(*first, layouts[3], 500, 1));
  CHECK(shared.reads == all_units);
  CHECK(are_right(*second, layouts[3], 500, 2));
  CHECK(shared.reads == all_units);
}

TEST_CASE("caches of one memory serve their processes at the same time") {
  for (const TokenLayout& layout : layouts) {
    for (const int units : {0, 100}) {  // two for each process, or all
      constexpr int processes = 4;
      Shared shared(layout, units, processes);
      std::vector<std::unique_ptr<TokenCache>> caches;
      for (int p = 0; p < processes; ++p) caches.push_back(shared.cache());
      std::atomic<int> right = 0;
      std::vector<std::thread> threads;
      for (int p = 0; p < processes; ++p) {
        threads.emplace_back([&, p] {
          right += are_right(*caches[static_cast<std::size_t>(p)], layout, 2000, static_cast<unsigned>(p)) ? 1 : 0;
        });
      }
      for (std::thread& thread : threads) thread.join();
      CHECK(right == processes);
      if (units == 100) CHECK(shared.reads == all_units);
    }
  }
}

TEST_CASE("no process reads into a unit that another copies from") {
  // Units of many tokens, so that copies are under way while other processes look for room.
  constexpr std::int64_t long_unit = 1 << 14;
  constexpr int processes = 4;
  const std::vector<std::int64_t> files = {40 * long_unit};
  const TokenLayout layout{.types = false, .wide = true};
  std::vector<std::int64_t> memory(
      static_cast<std::size_t>(TokenCache::bytes(files, layout, long_unit, 0, processes) / 8 + 1));
  const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(memory.data()), memory.size() * 8);
  const auto read = [](int, std::int64_t from, std::span<std::int32_t> ids, std::span<std::uint8_t>) {
    std::fill(ids.begin(), ids.end(), static_cast<std::int32_t>(from));
  };
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (unsigned p = 0; p < processes; ++p) {
    threads.emplace_back([&, p] {
      TokenCache cache(files, layout, long_unit, bytes, read);
      std::mt19937 random(p);
      std::vector<std::int32_t> ids(long_unit), types(long_unit);
      for (int i = 0; i < 2000; ++i) {
        const auto begin = static_cast<std::int64_t>(random() % 40) * long_unit;
        cache.copy(0, begin, long_unit, ids.data(), types.data());
        wrong += static_cast<int>(long_unit - std::count(ids.begin(), ids.end(), static_cast<std::int32_t>(begin)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("a unit that cannot be read is an error each time, and read again") {
  Shared shared(layouts[0], 4, 2);
  const auto first = shared.cache(), second = shared.cache();
  shared.failures_left = 2;
  std::int32_t ids[8], types[8];
  CHECK_THROWS_AS(first->copy(2, 0, 8, ids, types), std::runtime_error);
  CHECK_THROWS_AS(second->copy(2, 0, 8, ids, types), std::runtime_error);
  CHECK(is_right(*first, layouts[0], 2, 0, 8));
  CHECK(is_right(*second, layouts[0], 2, 0, 8));
  CHECK(shared.reads == 3);
}

TEST_CASE("a cache takes the memory that it was given, two units a process, or that of all tokens") {
  const TokenLayout layout{.types = false, .wide = false};
  const auto of = [&](int units, int processes) { return Shared::size(layout, units, processes); };
  CHECK(of(5, 1) - of(4, 1) == unit * 2 + 16);
  CHECK(of(0, 1) == of(2, 1));
  CHECK(of(0, 4) == of(8, 1));
  CHECK(of(100, 1) == of(all_units, 1));
}
