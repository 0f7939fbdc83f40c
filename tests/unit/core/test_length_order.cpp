#include "bert_hpc/core/length_order.hpp"

#include <catch2/catch_test_macros.hpp>
#include <vector>

using namespace bert_hpc;
using Numbers = std::vector<std::int32_t>;

namespace {

/// The order of sequences that begin at these rows; `lengths`: without padding, or empty if there is none.
struct Ordered {
  Ordered(const Numbers& offsets, const Numbers& lengths) : first(offsets.size() - 1), length(first), live(8, -1) {
    core::MicroBatch batch;
    batch.sequences = std::ssize(first);
    batch.tokens.offsets = offsets.data();
    if (!lengths.empty()) batch.lengths = lengths.data();
    order = core::order_by_length(batch, first.data(), length.data(), live.data());
    live.resize(static_cast<std::size_t>(order.steps));
  }
  Numbers first, length, live;
  core::LengthOrder order;
};

}  // namespace

TEST_CASE("sequences are ordered by length, equally long ones as they come") {
  const Ordered ordered({0, 1, 4, 6, 9}, {});
  CHECK(ordered.first == Numbers{1, 6, 4, 0});
  CHECK(ordered.length == Numbers{3, 3, 2, 1});
  CHECK(ordered.live == Numbers{4, 3, 2});
  CHECK(ordered.order.tokens == 9);
}

TEST_CASE("the order of padded sequences is that of their tokens") {
  const Ordered ordered({0, 5, 10, 15}, {2, 5, 1});
  CHECK(ordered.first == Numbers{5, 0, 10});
  CHECK(ordered.length == Numbers{5, 2, 1});
  CHECK(ordered.live == Numbers{3, 2, 1, 1, 1});
  CHECK(ordered.order.tokens == 8);
}

TEST_CASE("a batch without sequences has no steps") {
  const Ordered ordered({0}, {});
  CHECK(ordered.order.steps == 0);
  CHECK(ordered.order.tokens == 0);
}
