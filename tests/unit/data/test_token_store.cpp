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

using bert_hpc::data::TokenStore;

namespace {

constexpr std::int64_t block = 8;
const std::vector<std::int64_t> file_tokens = {13, 0, 8, 1, 40};  // one file has no tokens, one a whole block

std::int32_t id_of(int file, std::int64_t token) {
  return static_cast<std::int32_t>(1000 * file + token);
}

/// Counts the reads of each block, and fails as often as a case asks for.
struct Reads {
  std::vector<std::atomic<int>> of_file = std::vector<std::atomic<int>>(file_tokens.size());
  std::atomic<int> all = 0, failures_left = 0;

  TokenStore::Read reader() {
    return [this](int file, std::int64_t begin, std::span<std::int32_t> ids, std::span<std::uint8_t> types) {
      ++all;
      ++of_file[static_cast<std::size_t>(file)];
      if (failures_left > 0 && failures_left-- > 0) throw std::runtime_error("damaged");
      for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = id_of(file, begin + static_cast<std::int64_t>(i));
      for (std::size_t i = 0; i < types.size(); ++i) types[i] = static_cast<std::uint8_t>(ids[i] % 2);
    };
  }
};

std::vector<std::byte> memory_for(bool types) {
  return std::vector<std::byte>(static_cast<std::size_t>(TokenStore::bytes(file_tokens, types, block)));
}

/// Every range of every file.
bool all_right(TokenStore& store, bool has_types) {
  bool right = true;
  std::vector<std::int32_t> ids(64), types(64);
  for (std::size_t f = 0; f < file_tokens.size(); ++f) {
    for (std::int64_t begin = 0; begin < file_tokens[f]; ++begin) {
      for (std::int64_t length = 1; begin + length <= file_tokens[f]; ++length) {
        store.copy(static_cast<int>(f), begin, length, ids.data(), types.data());
        for (std::int64_t i = 0; i < length; ++i) {
          const std::int32_t id = id_of(static_cast<int>(f), begin + i);
          right = right && ids[static_cast<std::size_t>(i)] == id &&
                  types[static_cast<std::size_t>(i)] == (has_types ? id % 2 : 0);
        }
      }
    }
  }
  return right;
}

}  // namespace

TEST_CASE("a store of tokens has all ranges, and reads each block once") {
  for (const bool types : {false, true}) {
    Reads reads;
    std::vector<std::byte> memory = memory_for(types);
    TokenStore store(file_tokens, types, block, memory, reads.reader());
    REQUIRE(store.blocks() == 2 + 0 + 1 + 1 + 5);
    CHECK_FALSE(store.has(8));
    store.read_ahead(8);
    CHECK(store.has(8));
    store.read_ahead(8);
    CHECK(reads.all == 1);
    CHECK(all_right(store, types));
    CHECK(reads.all == store.blocks());
    CHECK(reads.of_file[4] == 5);
    // A second store of the same memory finds all that was read.
    Reads none;
    TokenStore other(file_tokens, types, block, memory, none.reader());
    CHECK(all_right(other, types));
    CHECK(none.all == 0);
  }
}

TEST_CASE("stores of one memory share the reading between threads") {
  Reads reads;
  std::vector<std::byte> memory = memory_for(true);
  TokenStore first(file_tokens, true, block, memory, reads.reader()),
      second(file_tokens, true, block, memory, reads.reader());
  bool right[2] = {};
  std::thread ahead([&] {
    for (std::int64_t b = first.blocks(); b-- > 0;) first.read_ahead(b);
  });
  std::thread other([&] { right[1] = all_right(second, true); });
  right[0] = all_right(first, true);
  ahead.join();
  other.join();
  CHECK((right[0] && right[1]));
  CHECK(reads.all == first.blocks());
}

TEST_CASE("a block that could not be read ahead says why to the one who needs it") {
  Reads reads;
  std::vector<std::byte> memory = memory_for(false);
  TokenStore store(file_tokens, false, block, memory, reads.reader());
  reads.failures_left = 2;
  store.read_ahead(0);
  CHECK_FALSE(store.has(0));
  std::int32_t ids[4], types[4];
  CHECK_THROWS_AS(store.copy(0, 2, 4, ids, types), std::runtime_error);
  store.copy(0, 2, 4, ids, types);
  CHECK(ids[3] == id_of(0, 5));
}

TEST_CASE("files that were read already are filled in") {
  Reads reads;
  std::vector<std::byte> memory = memory_for(true);
  TokenStore store(file_tokens, true, block, memory, reads.reader());
  for (std::size_t f = 0; f < file_tokens.size(); ++f) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(file_tokens[f]));
    std::iota(ids.begin(), ids.end(), id_of(static_cast<int>(f), 0));
    std::vector<std::uint8_t> types(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) types[i] = static_cast<std::uint8_t>(ids[i] % 2);
    store.fill(static_cast<int>(f), ids, types);
  }
  CHECK(all_right(store, true));
  CHECK(reads.all == 0);
}
