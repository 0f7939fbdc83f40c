#include "bert_hpc/io/trace.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

using namespace bert_hpc::io;

TEST_CASE("a trace is JSON that names its rows and keeps times to the nanosecond") {
  Trace trace;
  trace.facts = {{"kind", "simulated"}, {"machine", "8 × \"H100\"\n"}};
  trace.ranks = {"stage 0", "", "stage 2"};
  trace.events = {{"forward", "compute", 0, 1.25e-3, 5e-9, 7, 3, 1}, {"update", "update", 2, 2.0, 0.5}};
  const auto json = nlohmann::json::parse(trace_json(trace));
  CHECK(json["otherData"]["machine"] == "8 × \"H100\"\n");
  const auto& events = json["traceEvents"];
  REQUIRE(events.size() == 6);  // two rows with a name and an order each, two events
  CHECK(events[2]["pid"] == 2);
  CHECK(events[2]["args"]["name"] == "stage 2");
  CHECK(events[4]["ts"].get<double>() == 1250.0);
  CHECK(events[4]["dur"].get<double>() == 0.005);
  CHECK(events[4]["args"]["step"] == 7);
  CHECK(events[4]["args"]["micro_batch"] == 3);
  CHECK(events[4]["args"]["virtual_stage"] == 1);
  CHECK(events[5]["ts"].get<double>() == 2e6);
  CHECK(!events[5].contains("args"));
}

TEST_CASE("a trace without events is still JSON") {
  CHECK(nlohmann::json::parse(trace_json({}))["traceEvents"].empty());
}
