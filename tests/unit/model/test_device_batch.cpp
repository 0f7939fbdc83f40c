#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <vector>

#include "support/device_batch.hpp"
#include "support/host_batch.hpp"

using namespace bert_hpc;

namespace {

/// The same numbers at another address, in memory for kernels.
template <class T>
void check_copied(const T* host, const T* device, std::int64_t count) {
  REQUIRE(host != nullptr);
  REQUIRE(device != nullptr);
  CHECK(device != host);
  core::require_device_memory(device, "a batch's array");
  CHECK(test::copy_of(device, count) == std::vector<T>(host, host + count));
}

void check_rows(const core::TokenRows& host, const core::TokenRows& device, std::int64_t sequences) {
  CHECK(device.count == host.count);
  check_copied(host.offsets, device.offsets, sequences + 1);
  check_copied(host.sequence, device.sequence, host.count);
  check_copied(host.position, device.position, host.count);
}

}  // namespace

TEST_CASE("a batch in device memory is a whole copy of the host's") {
  test::HostBatch batch({7, 5, 5, 9, 7, 5}, {0, 0, 1, 0, 0, 1}, {2, 1, 3});
  batch.set_classes({1, 0, 2});
  batch.set_values({0.5f, -1.0f, 2.0f});
  batch.set_masked({1, 3, 5}, {6, 8, 5});
  const bool masked = GENERATE(false, true);
  const test::HostOperands operands;
  const core::MicroBatch host = batch.view(masked);
  const test::DeviceBatch copied(host);
  const core::MicroBatch& device = copied.view();
  CHECK(device.sequences == 3);
  CHECK(device.max_length == 3);
  check_rows(host.tokens, device.tokens, 3);
  check_rows(host.targets.rows, device.targets.rows, 3);
  check_copied(host.input_ids, device.input_ids, 6);
  check_copied(host.token_type_ids, device.token_type_ids, 6);
  check_copied(host.sample, device.sample, 3);
  CHECK(device.sorted_ids.unique == 3);
  check_copied(host.sorted_ids.ids, device.sorted_ids.ids, 3);
  check_copied(host.sorted_ids.segments, device.sorted_ids.segments, 4);
  check_copied(host.sorted_ids.order, device.sorted_ids.order, 6);
  check_copied(host.targets.index, device.targets.index, 3);
  check_copied(host.targets.get<core::ClassTargets>().data, device.targets.get<core::ClassTargets>().data, 3);
  if (!masked)
    check_copied(host.targets.get<core::ValueTargets>().data, device.targets.get<core::ValueTargets>().data, 3);
}

TEST_CASE("arrays that a batch lacks stay away from device memory") {
  const test::HostOperands operands;
  const test::HostBatch batch({5, 6}, {0, 0}, {2});
  const test::DeviceBatch copied(batch.view());
  CHECK(copied.view().targets.get<core::ClassTargets>().data == nullptr);
  CHECK(copied.view().targets.get<core::ValueTargets>().data == nullptr);
}
