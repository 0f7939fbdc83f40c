// The phases of a session, on a plan: no shards, nothing allocated.
#include "app/session.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "app/load_input.hpp"
#include "app/plan/micro_batch_size.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The context of --validate --tokens for this many ranks.
struct Plan {
  explicit Plan(int ranks, const std::string& sizes = "micro_batches = 4", std::vector<std::string> overrides = {})
      : invocation(planned(ranks, std::move(overrides))),
        given(app::load_input(text(sizes), invocation, ranks, false)) {}

  static app::Invocation planned(int ranks, std::vector<std::string> overrides) {
    app::Invocation invocation;
    invocation.overrides = std::move(overrides);
    invocation.input_path = "in.toml";
    invocation.validate = true;
    invocation.validate_ranks = ranks;
    invocation.planned_tokens = 100000;
    invocation.planned_mean_length = 40;
    return invocation;
  }
  static std::string text(const std::string& sizes) {
    return "[run]\ndirectory = \"out\"\n[task]\nname = \"classification\"\n[optimizer]\nlearning_rate = 1e-4\n"
           "[schedule]\nepochs = 1\n[batch]\nglobal = 64\n" +
           sizes +
           "\n[data]\nvalidation = [\"v.h5\"]\n[parallel]\npipeline = 2\n"
           "[model]\nhidden_size = 64\nnum_hidden_layers = 3\nnum_attention_heads = 2\nvocab_size = 1000\n";
  }

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
  CHECK_FALSE(session.model->allocates);
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

TEST_CASE("a GPU's automatic sizes exist for every layout, memory and batch that the input allows") {
  constexpr std::int64_t gb = 1'000'000'000;
  for (const bool reproducible : {false, true}) {
    for (const auto& [ranks, pipeline] : {std::pair{1, 1}, {2, 1}, {8, 1}, {16, 1}, {2, 2}, {16, 2}}) {
      for (const int global : {16, 64, 1000}) {
        const int replicas = ranks / pipeline;
        INFO("reproducible = " << reproducible << ", " << replicas << " replicas of " << pipeline << " stages, batch "
                               << global);
        const std::vector<std::string> overrides = {
            std::string("run.reproducible=") + (reproducible ? "true" : "false"),
            "batch.global=" + std::to_string(global), "parallel.pipeline=" + std::to_string(pipeline)};
        if (reproducible && replicas > 8 && global < 512) {
          CHECK_THROWS_WITH(Plan(ranks, "", overrides), ContainsSubstring("set [batch] chunks = 16"));
          continue;
        }
        Plan plan(ranks, "", overrides);
        app::SessionData data(plan.context);
        const app::Session session(plan.context, data, true);
        std::int64_t before = app::least_micro_tokens;
        for (const std::int64_t memory : {1 * gb, 16 * gb, 141 * gb}) {
          const std::int64_t tokens =
              app::gpu_micro_tokens(plan.context, session.model->config, data.primary(), memory);
          CHECK(tokens >= before);
          before = tokens;
        }
        CHECK(before == app::max_micro_tokens);
        // A micro-batch is one chunk, whatever would fit.
        if (reproducible) CHECK(session.micro_batches() == session.batches.plan.chunks / replicas);
      }
    }
  }
}
