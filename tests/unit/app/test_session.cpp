// The phases of a session, on a plan: no shards, nothing allocated.
#include "bert_hpc/app/session.hpp"

#include <catch2/catch_test_macros.hpp>

#include "bert_hpc/app/load_input.hpp"

using namespace bert_hpc;

namespace {

/// The context of --validate --tokens for this many ranks.
struct Plan {
  explicit Plan(int ranks) : invocation(planned(ranks)), given(app::load_input(text, invocation, ranks, false)) {}

  static app::Invocation planned(int ranks) {
    app::Invocation invocation;
    invocation.input_path = "in.toml";
    invocation.validate = true;
    invocation.validate_ranks = ranks;
    invocation.planned_tokens = 100000;
    invocation.planned_mean_length = 40;
    return invocation;
  }
  static constexpr const char* text =
      "[run]\ndirectory = \"out\"\n[task]\nname = \"classification\"\n[optimizer]\nlearning_rate = 1e-4\n"
      "[schedule]\nepochs = 1\n[batch]\nglobal = 64\nmicro_batches = 4\n[data]\nvalidation = [\"v.h5\"]\n"
      "[parallel]\npipeline = 2\n"
      "[model]\nhidden_size = 64\nnum_hidden_layers = 3\nnum_attention_heads = 2\nvocab_size = 1000\n";

  app::Invocation invocation;
  app::LoadedInput given;
  std::unique_ptr<comm::Communicator> world = comm::make_self_communicator();
  core::DeviceChoice device;
  core::Log log;
  core::Activity activity;
  app::FailureMark failure;
  app::StopRequest requests{0.0};
  app::SignalListener listener{requests, [](int) {}};
  app::RunContext context{{given.config, *world, log},
                          invocation,
                          given.grid,
                          1,
                          device,
                          {},
                          0,
                          activity,
                          failure,
                          given.resolved,
                          requests,
                          listener};
};

}  // namespace

TEST_CASE("an estimate has a model, batches and planned memory, and no communicators or reducer") {
  Plan plan(2);
  app::SessionData data(plan.context);
  CHECK(&data.primary() == data.sets.train.get());
  const app::Session session(plan.context, data, true);
  CHECK(session.trains());
  CHECK(session.estimates());
  CHECK_FALSE(session.groups);
  CHECK_FALSE(session.sums);
  REQUIRE(session.model);
  CHECK_FALSE(session.model->use.allocates);
  CHECK(session.micro_batches() == 4);
  CHECK(session.bounds.tokens > 0);
  CHECK(session.validation);
  CHECK_FALSE(session.test);
  CHECK(session.evaluation_bounds.tokens == session.validation->bounds().tokens);
  CHECK(app::total(session.memory()) > session.model->parameters.arena_size() * std::int64_t{sizeof(float)});
}

TEST_CASE("the shards of a model follow its stages: segments, and the word embeddings where they are tied") {
  Plan plan(2);
  app::SessionData data(plan.context);
  const app::Session session(plan.context, data, true);
  const train::ShardSettings shards = session.shards_of(*session.model);
  CHECK(shards.segments == session.model->segments());
  CHECK(shards.units.size() > 1);
  CHECK(shards.units == session.model->units());
  CHECK(shards.tied.empty());
  CHECK_FALSE(shards.first_unit_held);
}

TEST_CASE("a run that trains one model applies another one to the same data") {
  Plan plan(4);
  app::SessionData data(plan.context);
  const app::Session student(plan.context, data, true), teacher(plan.context, data, false);
  CHECK(&student.sets == &teacher.sets);
  // The teacher has neither gradients nor optimizer states, and no batches of its own.
  CHECK(app::total(teacher.memory()) < app::total(student.memory()) / 2);
  CHECK_FALSE(teacher.trains());
  CHECK(teacher.micro_batches() == 0);
  CHECK(app::Session(plan.context, data, true).memory() == student.memory());
}
