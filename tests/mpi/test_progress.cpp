// Operations that a device performs without the host are waited for and never polled, by gradients' sums of every kind
// and through the checked communicator. test_pipeline.cpp has the pipeline's.
#include <catch2/catch_test_macros.hpp>

#include "bert_hpc/comm/checked_communicator.hpp"
#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/train/data_parallel.hpp"
#include "support/unpolled_communicator.hpp"
#include "support/vector.hpp"
#include "support/world.hpp"

using namespace bert_hpc;
using core::ParameterStore;

namespace {

using test::world;

bool everywhere(bool holds) {
  return !world().any(!holds);
}

}  // namespace

TEST_CASE("sums of gradients do not poll requests that need no progress") {
  for (const int zero : {0, 1, 2}) {
    INFO("zero " << zero);
    test::UnpolledCommunicator group(world());
    train::ShardSettings settings{.zero = zero, .bucket_elements = 1024};
    const bool whole = !train::shards_gradients(settings, group.size());
    ParameterStore store({{"first", {64, 64}}, {"second", {50, 70}}},
                         whole ? ParameterStore::Arenas::with_gradients : ParameterStore::Arenas::values,
                         train::shard_alignment(false, group.size()), {});
    settings.units = {0, store.slices()[1].offset};
    const auto sums = train::make_data_parallel(group, store, settings);
    for (int step = 0; step < 2; ++step) {
      sums->begin_step(1);
      sums->finished(0, settings.units[1]);
      sums->finished(0, 0);
      sums->end_micro_batch(0);
      sums->end_step();
      sums->share_parameters();
    }
    CHECK(everywhere(group.polls() == 0));
    CHECK(everywhere(group.size() == 1 || group.waits() > 0));
  }
}

TEST_CASE("a checked request needs progress where the one inside does") {
  test::UnpolledCommunicator inner(world());
  const auto unpolled = comm::make_checked_communicator(inner, {});
  const auto polled = comm::make_checked_communicator(world(), {});
  test::Vector<float> first(static_cast<std::size_t>(16 * world().size())), second(first.size());
  for (const bool needs : {false, true}) {
    const comm::RequestHandle request = (needs ? polled : unpolled)->start_all_gather(first);
    const comm::RequestHandle plain = world().start_all_gather(second);
    CHECK(request->needs_progress() == (needs && plain->needs_progress()));
    plain->wait();
    request->wait();
  }
}
