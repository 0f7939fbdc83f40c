// Pipeline schedules for every number of stages up to 8 and of micro-batches up to 64: no fault, no deadlock, memory
// and bubble as promised. Also that the checker sees faults, by putting them in.
#include "bert_hpc/train/schedule.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/train/timeline.hpp"
#include "support/schedule_check.hpp"

using namespace bert_hpc::train;
using Kind = Instruction::Kind;

namespace {

constexpr int max_stages = 8, max_micro_batches = 64;
const std::vector<ScheduleKind> plain_kinds = {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zb_h1,
                                               ScheduleKind::forwards_first};

template <class Check>
void for_all_shapes(const Check& check) {
  for (int stages = 1; stages <= max_stages; ++stages) {
    for (int micro_batches = 1; micro_batches <= max_micro_batches; ++micro_batches) check(stages, micro_batches);
  }
}

/// Every part's forward, input and weight gradients take these times, over the number of virtual stages.
PipelineDurations durations(double forward, double input, double weight, int virtual_stages = 1) {
  PipelineDurations result;
  result.compute = [=](int, const Instruction& i) {
    const double whole = i.kind == Kind::forward          ? forward
                         : i.kind == Kind::backward_input ? input
                         : i.kind == Kind::backward       ? input + weight
                                                          : weight;
    return whole / virtual_stages;
  };
  return result;
}

double simulated_bubble(ScheduleKind kind, int stages, int micro_batches, int virtual_stages = 1) {
  const auto timeline =
      play(make_schedules(kind, stages, micro_batches, virtual_stages), durations(1, 1, 1, virtual_stages));
  return bubble(timeline);
}

/// A fault-free set to spoil.
std::vector<Schedule> good() {
  return make_schedules(ScheduleKind::one_f_one_b, 3, 4);
}

std::string fault(const std::vector<Schedule>& schedules) {
  return bert_hpc::test::find_fault(schedules, 4, 1, bert_hpc::test::Sending::buffered);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("no schedule has a fault, whether sends wait or not") {
  for_all_shapes([](int stages, int micro_batches) {
    for (const ScheduleKind kind : plain_kinds) {
      const auto schedules = make_schedules(kind, stages, micro_batches);
      INFO(schedule_name(kind) << ", " << stages << " stages, " << micro_batches << " micro-batches");
      REQUIRE(bert_hpc::test::find_fault(schedules, micro_batches, 1, bert_hpc::test::Sending::buffered) == "");
      REQUIRE(bert_hpc::test::find_fault(schedules, micro_batches, 1, bert_hpc::test::Sending::rendezvous) == "");
    }
  });
}

TEST_CASE("interleaved schedules have no fault, with any number of micro-batches") {
  for_all_shapes([](int stages, int micro_batches) {
    for (const int virtual_stages : {1, 2, 3, 4}) {
      if (stages == 1 && virtual_stages > 1) continue;
      const auto schedules = make_schedules(ScheduleKind::interleaved, stages, micro_batches, virtual_stages);
      INFO(stages << " stages, " << virtual_stages << " virtual, " << micro_batches << " micro-batches");
      REQUIRE(bert_hpc::test::find_fault(schedules, micro_batches, virtual_stages, bert_hpc::test::Sending::buffered) ==
              "");
    }
  });
}

TEST_CASE("micro-batches in flight are as promised") {
  for_all_shapes([](int stages, int micro_batches) {
    for (int stage = 0; stage < stages; ++stage) {
      INFO("stage " << stage << " of " << stages << ", " << micro_batches << " micro-batches");
      const auto most = [&](ScheduleKind kind) {
        return max_in_flight(make_schedule(kind, stages, stage, micro_batches));
      };
      REQUIRE(most(ScheduleKind::gpipe) == (stages == 1 ? 1 : micro_batches));
      REQUIRE(most(ScheduleKind::one_f_one_b) == std::min(micro_batches, stages - stage));
      // No stage holds more than the first one of 1F1B.
      REQUIRE(most(ScheduleKind::zb_h1) == std::min(micro_batches, stages));
    }
  });
  // Over its virtual stages, a stage holds the forwards of its warm-up and one more (Narayanan et al. 2021b).
  for (int stage = 0; stage < 4; ++stage) {
    const auto schedule = make_schedule(ScheduleKind::interleaved, 4, stage, 16, 2);
    CHECK(max_in_flight(schedule, 0) + max_in_flight(schedule, 1) >= 2 * (4 - stage - 1) + 4 + 1);
    CHECK(max_in_flight(schedule, 0) <= 8);
    CHECK(max_in_flight(schedule, 1) <= 8);
  }
}

TEST_CASE("one stage works on one micro-batch after the other in every kind") {
  for (const ScheduleKind kind :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved, ScheduleKind::zb_h1}) {
    const Schedule expected = {{Kind::forward, 0}, {Kind::backward, 0}, {Kind::forward, 1}, {Kind::backward, 1}};
    CHECK(make_schedule(kind, 1, 0, 2) == expected);
  }
}

TEST_CASE("the last stage of a 1F1B pipeline exchanges in both directions at once") {
  const Schedule expected = {{Kind::receive_forward, 0}, {Kind::forward, 0},
                             {Kind::backward, 0},        {Kind::send_backward_receive_forward, 0, 0, 1, 0},
                             {Kind::forward, 1},         {Kind::backward, 1},
                             {Kind::send_backward, 1}};
  CHECK(make_schedule(ScheduleKind::one_f_one_b, 2, 1, 2) == expected);
}

TEST_CASE("bubbles are as the papers say") {
  // Waiting time over all: with F = B = W = 1, (stages - 1)·3 per stage for gpipe and 1F1B, divided by the virtual
  // stages when interleaved, and (stages - 1)·(F + B - W) for ZB-H1; exact but for the rounding of sums of a few
  // hundred ones and fractions.
  const double tolerance = 1e-12;
  for (int stages = 2; stages <= max_stages; ++stages) {
    for (int micro_batches = stages; micro_batches <= max_micro_batches; ++micro_batches) {
      INFO(stages << " stages, " << micro_batches << " micro-batches");
      const auto share = [&](double waiting) { return waiting / (3.0 * micro_batches + waiting); };
      const double waiting = 3.0 * (stages - 1);
      REQUIRE(std::abs(simulated_bubble(ScheduleKind::gpipe, stages, micro_batches) - share(waiting)) < tolerance);
      REQUIRE(std::abs(simulated_bubble(ScheduleKind::one_f_one_b, stages, micro_batches) - share(waiting)) <
              tolerance);
      const double zero_bubble = simulated_bubble(ScheduleKind::zb_h1, stages, micro_batches);
      REQUIRE(std::abs(zero_bubble - share(waiting / 3)) < tolerance);
      if (micro_batches % stages != 0) continue;
      for (const int virtual_stages : {2, 4}) {
        const double interleaved = simulated_bubble(ScheduleKind::interleaved, stages, micro_batches, virtual_stages);
        REQUIRE(std::abs(interleaved - share(waiting / virtual_stages)) < tolerance);
      }
    }
  }
}

TEST_CASE("four stages and 16 micro-batches: at most a fifth of the time is lost, and 8% with ZB-H1") {
  CHECK(simulated_bubble(ScheduleKind::one_f_one_b, 4, 16) <= 0.20);
  CHECK(simulated_bubble(ScheduleKind::zb_h1, 4, 16) <= 0.08);
}

TEST_CASE("a message takes the time of its way and waits for those before it") {
  // Two stages, gpipe, two micro-batches: the second message waits for the first, whose transfer takes 5.
  auto times = durations(1, 1, 1);
  times.transfer = [](int, int, const Message&) { return 5.0; };
  times.latency = [](int, int) { return 0.5; };
  const auto timeline = play(make_schedules(ScheduleKind::gpipe, 2, 2), times);
  // F0 ends at 1 and arrives at 6.5; F1 ends at 2, goes from 6 to 11 and arrives at 11.5, is computed until 12.5. Both
  // gradients take 2, and go at 14.5 and, in turn, 19.5; the second arrives at 25 and the first stage needs 2 more.
  CHECK(timeline.stages[1][0].end == 6.5);
  CHECK(timeline.stages[1][2].end == 11.5);
  CHECK(timeline.seconds == 27.0);
}

TEST_CASE("virtual stages are refused where they have no effect") {
  using bert_hpc::core::Error;
  CHECK_THROWS_AS(make_schedule(ScheduleKind::one_f_one_b, 2, 0, 4, 2), Error);
  CHECK_THROWS_AS(make_schedule(ScheduleKind::interleaved, 1, 0, 4, 2), Error);
}

TEST_CASE("names are read back") {
  for (const char* name : {"gpipe", "1f1b", "interleaved", "zb_h1"}) CHECK(schedule_name(*schedule_kind(name)) == name);
  CHECK(!schedule_kind("zb_h2"));
}

TEST_CASE("the checker finds wrong schedules") {
  REQUIRE(fault(good()) == "");
  auto schedules = good();
  schedules[2].erase(schedules[2].begin());
  CHECK(has(fault(schedules), "comes before its input"));
  schedules = good();
  std::swap(schedules[0][0], schedules[0][2]);
  CHECK(has(fault(schedules), "not computed yet"));
  std::swap(schedules[0][1], schedules[0][3]);  // now with their sends
  CHECK(has(fault(schedules), "receives another message"));
  schedules = good();
  schedules[1].pop_back();
  CHECK(has(fault(schedules), "deadlock"));
  schedules = good();
  schedules[0].pop_back();
  CHECK(has(fault(schedules), "does not work on all"));
  schedules = good();
  schedules[0].push_back({Kind::backward, 3});
  CHECK(has(fault(schedules), "done twice"));
  schedules = good();
  schedules[0][0].micro_batch = 7;
  CHECK(has(fault(schedules), "that there is not"));
  schedules = good();
  schedules[0].push_back({Kind::send_backward, 0});
  CHECK(has(fault(schedules), "beyond the model's ends"));

  // Both send first: fine where sends are buffered, a deadlock where they wait.
  schedules = make_schedules(ScheduleKind::one_f_one_b, 2, 2);
  for (Schedule& schedule : schedules) {
    for (std::size_t i = 0; i < schedule.size(); ++i) {
      Instruction& exchange = schedule[i];
      if (exchange.kind != Kind::send_forward_receive_backward &&
          exchange.kind != Kind::send_backward_receive_forward) {
        continue;
      }
      const bool forward = exchange.kind == Kind::send_forward_receive_backward;
      const Instruction receive{forward ? Kind::receive_backward : Kind::receive_forward, exchange.other_micro_batch};
      exchange = {forward ? Kind::send_forward : Kind::send_backward, exchange.micro_batch};
      schedule.insert(schedule.begin() + static_cast<std::ptrdiff_t>(++i), receive);
    }
  }
  CHECK(bert_hpc::test::find_fault(schedules, 2, 1, bert_hpc::test::Sending::buffered) == "");
  CHECK(has(find_fault(schedules, 2, 1, bert_hpc::test::Sending::rendezvous), "deadlock"));
}

TEST_CASE("the transfers of an instruction name both neighbours around the ring") {
  const Instruction exchange{Kind::send_backward_receive_forward, 1, 0, 2, 1};
  const Transfer transfer = transfer_of(exchange, 4, 0);
  CHECK(transfer.send == Message{3, false, 0, 1});
  CHECK(transfer.receive == Message{3, true, 1, 2});
  CHECK(!transfer_of({Kind::forward, 0}, 4, 0).send);
}
