// Which rows, tiles and sequences the blocks of the tensor cores' attention kernels take, on the host by an emulator of
// a GPU's warp.
#include <catch2/catch_test_macros.hpp>

#include "support/emulated_attention.hpp"

using namespace bert_hpc;
using namespace bert_hpc::ops::cuda;
using test::EmulatedDevice;
using test::EmulatedWarp;

TEST_CASE("tensor cores' attention finds rows among many sequences") {
  // Around a warp's lanes and their square; some sequences without rows.
  for (const int count : {1, 2, 31, 32, 33, 1023, 1024, 1025, 1100}) {
    std::vector<std::int32_t> offsets{0};
    for (int b = 0; b < count; ++b) {
      const int length = b == count / 2 ? 140 : b % 11 == 3 ? 0 : 1 + b * 7 % 5;
      offsets.push_back(offsets.back() + length);
    }
    constexpr int tile = 64;
    std::vector<int> found(static_cast<std::size_t>(offsets.back()));
    std::int64_t wrong = 0;
    EmulatedDevice device;
    device.allow(offsets.data(), offsets.size() * 4, false);
    device.launch(1, 1, 1, 0, [&] {
      for (int slot = 0; slot < row_slots(offsets.back(), count, tile); ++slot) {
        const BlockRows r = block_rows<EmulatedWarp>(offsets.data(), count, tile, slot);
        const auto sequence = static_cast<std::size_t>(r.sequence);
        for (int row = 0; row < r.rows; ++row) ++found[static_cast<std::size_t>(r.first + row)];
        if (r.rows > 0 &&
            (r.rows > tile || r.first != offsets[sequence] + r.start || r.first + r.rows > offsets[sequence + 1])) {
          ++wrong;
        }
      }
    });
    CAPTURE(count);
    CHECK(wrong == 0);
    CHECK(std::count(found.begin(), found.end(), 1) == offsets.back());
    CHECK(device.complaints().empty());
  }
}

TEST_CASE("tensor cores' attention finds the first tile of queries that attends to a key") {
  AttentionCall<core::Bf16> call{};
  for (const int count : {0, 1, 31, 32, 33, 1024, 1025, 2100}) {
    std::vector<std::int32_t> position(static_cast<std::size_t>(count) + 3, 0);
    for (std::size_t i = 3; i < position.size(); ++i) position[i] = static_cast<std::int32_t>(3 * i + i % 2);
    call.query_position = position.data();
    EmulatedDevice device;
    device.allow(position.data(), position.size() * 4, false);
    std::int64_t wrong = 0;
    device.launch(1, 1, 1, 0, [&] {
      for (int key = 0; key < 3 * count + 20; key += count < 100 ? 1 : 37) {
        int first = 0;
        while (first < count && position[static_cast<std::size_t>(first) + 3] < key) ++first;
        const int found = first_query_of<EmulatedWarp, 32>(call, true, 3, count, key);
        wrong += found == (first < count ? first / 32 * 32 : (count + 31) / 32 * 32) ? 0 : 1;
        wrong += first_query_of<EmulatedWarp, 32>(call, false, 3, count, key) == 0 ? 0 : 1;
      }
    });
    CAPTURE(count);
    CHECK(wrong == 0);
    CHECK(device.complaints().empty());
  }
}

TEST_CASE("tensor cores' attention begins sequences with the longest") {
  for (const int count : {1, 5, 32, 33, 127, 128, 129}) {
    std::vector<std::int32_t> keys{0}, queries{0};
    for (int b = 0; b < count; ++b) {
      keys.push_back(keys.back() + 1 + b * 37 % 51);
      queries.push_back(queries.back() + (b % 7 == 3 ? 0 : keys.back() - keys[static_cast<std::size_t>(b)]));
    }
    AttentionCall<core::Bf16> call{};
    call.sequences = count;
    call.key_offsets = keys.data();
    call.query_offsets = queries.data();
    EmulatedDevice device;
    device.allow(keys.data(), keys.size() * 4, false);
    device.allow(queries.data(), queries.size() * 4, false);
    std::vector<int> order(static_cast<std::size_t>(count), -1);
    device.launch(count, 1, 8, 1040, [&] {
      order[static_cast<std::size_t>(EmulatedWarp::block_x())] =
          sequence_of_rank<EmulatedWarp>(call, EmulatedWarp::block_x(), 16);
    });
    CAPTURE(count);
    for (const std::string& complaint : device.complaints()) FAIL_CHECK(complaint);
    const auto size = [&](int b) {
      const auto i = static_cast<std::size_t>(b);
      return (keys[i + 1] - keys[i]) * (queries[i + 1] - queries[i]);
    };
    for (int rank = 1; rank < count; ++rank) {
      const int before = order[static_cast<std::size_t>(rank - 1)], after = order[static_cast<std::size_t>(rank)];
      if (count > 128) {
        CHECK(after == rank);
      } else {
        CHECK((size(before) > size(after) || (size(before) == size(after) && before < after)));
      }
    }
  }
}
