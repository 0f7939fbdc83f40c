// Tokens that are read as they are needed: the same as were written, each block once, by whichever of two threads or
// stores of one memory comes first; blocks that cannot be read are tried again by who needs them.
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "bert_hpc/data/token_store.hpp"

using bert_hpc::data::TokenLayout;
using bert_hpc::data::TokenStore;

namespace {

constexpr std::int64_t block = 8;
const std::vector<std::int64_t> file_tokens = {13, 0, 8, 1, 40};  // one file has no tokens, one a whole block

/// Narrow ids go up to 65,535, wide ones beyond.
std::int32_t id_of(const TokenLayout& layout, int file, std::int64_t token) {
  return static_cast<std::int32_t>((layout.wide ? 70000 : 61496) + 1000 * file + token);
}

/// Counts the reads of each block, and fails as often as a case asks for.
struct Reads {
  TokenLayout layout{};
  std::vector<std::atomic<int>> of_file = std::vector<std::atomic<int>>(file_tokens.size());
  std::atomic<int> all = 0, failures_left = 0;

  TokenStore::Read reader() {
    return [this](int file, std::int64_t begin, std::span<std::int32_t> ids, std::span<std::uint8_t> types) {
      ++all;
      ++of_file[static_cast<std::size_t>(file)];
      if (failures_left > 0 && failures_left-- > 0) throw std::runtime_error("damaged");
      for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = id_of(layout, file, begin + static_cast<std::int64_t>(i));
      for (std::size_t i = 0; i < types.size(); ++i) types[i] = static_cast<std::uint8_t>(ids[i] % 2);
    };
  }
};

std::vector<std::byte> memory_for(const TokenLayout& layout) {
  return std::vector<std::byte>(static_cast<std::size_t>(TokenStore::bytes(file_tokens, layout, block)));
}

/// Every range of every file.
bool all_right(TokenStore& store, const TokenLayout& layout) {
  bool right = true;
  std::vector<std::int32_t> ids(64), types(64);
  for (std::size_t f = 0; f < file_tokens.size(); ++f) {
    for (std::int64_t begin = 0; begin < file_tokens[f]; ++begin) {
      for (std::int64_t length = 1; begin + length <= file_tokens[f]; ++length) {
        store.copy(static_cast<int>(f), begin, length, ids.data(), types.data());
        for (std::int64_t i = 0; i < length; ++i) {
          const std::int32_t id = id_of(layout, static_cast<int>(f), begin + i);
          right = right && ids[static_cast<std::size_t>(i)] == id &&
                  types[static_cast<std::size_t>(i)] == (layout.types ? id % 2 : 0);
        }
      }
    }
  }
  return right;
}

}  // namespace

TEST_CASE("a store of tokens has all ranges, and reads each block once") {
  for (const TokenLayout layout : {TokenLayout{false, false}, {false, true}, {true, false}, {true, true}}) {
    Reads reads{layout};
    std::vector<std::byte> memory = memory_for(layout);
    TokenStore store(file_tokens, layout, block, memory, reads.reader());
    REQUIRE(store.blocks() == 2 + 0 + 1 + 1 + 5);
    CHECK_FALSE(store.has(8));
    store.read_ahead(8);
    CHECK(store.has(8));
    store.read_ahead(8);
    CHECK(reads.all == 1);
    CHECK(all_right(store, layout));
    CHECK(reads.all == store.blocks());
    CHECK(reads.of_file[4] == 5);
    // A second store of the same memory finds all that was read.
    Reads none{layout};
    TokenStore other(file_tokens, layout, block, memory, none.reader());
    CHECK(all_right(other, layout));
    CHECK(none.all == 0);
  }
}

TEST_CASE("stores of one memory share the reading between threads") {
  const TokenLayout layout{.types = true, .wide = false};
  Reads reads{layout};
  std::vector<std::byte> memory = memory_for(layout);
  TokenStore first(file_tokens, layout, block, memory, reads.reader()),
      second(file_tokens, layout, block, memory, reads.reader());
  bool right[2] = {};
  std::thread ahead([&] {
    for (std::int64_t b = first.blocks(); b-- > 0;) first.read_ahead(b);
  });
  std::thread other([&] { right[1] = all_right(second, layout); });
  right[0] = all_right(first, layout);
  ahead.join();
  other.join();
  CHECK((right[0] && right[1]));
  CHECK(reads.all == first.blocks());
}

TEST_CASE("a block that could not be read ahead says why to the one who needs it") {
  const TokenLayout layout{.types = false, .wide = false};
  Reads reads{layout};
  std::vector<std::byte> memory = memory_for(layout);
  TokenStore store(file_tokens, layout, block, memory, reads.reader());
  reads.failures_left = 2;
  store.read_ahead(0);
  CHECK_FALSE(store.has(0));
  std::int32_t ids[4], types[4];
  CHECK_THROWS_AS(store.copy(0, 2, 4, ids, types), std::runtime_error);
  store.copy(0, 2, 4, ids, types);
  CHECK(ids[3] == id_of(layout, 0, 5));
}

TEST_CASE("files that were read already are filled in") {
  const TokenLayout layout{.types = true, .wide = false};
  Reads reads{layout};
  std::vector<std::byte> memory = memory_for(layout);
  TokenStore store(file_tokens, layout, block, memory, reads.reader());
  for (std::size_t f = 0; f < file_tokens.size(); ++f) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(file_tokens[f]));
    std::iota(ids.begin(), ids.end(), id_of(layout, static_cast<int>(f), 0));
    std::vector<std::uint8_t> types(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) types[i] = static_cast<std::uint8_t>(ids[i] % 2);
    store.fill(static_cast<int>(f), ids, types);
  }
  CHECK(all_right(store, layout));
  CHECK(reads.all == 0);
}
