#include "bert_hpc/config/machine_description.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

#include "bert_hpc/core/error.hpp"

using bert_hpc::config::parse_machine;
using bert_hpc::config::parse_machine_text;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string text = R"([machine]
name = "test"
measured = true
[node]
ranks = 4
[rank]
memory_gib = 2
memory_gb_per_second = 30
fp32_gflops = 100
bf16_gflops = 200
efficiency = 0.5
[link_in_node]
gb_per_second = 8
latency_us = 1
[link_between_nodes]
gb_per_second = 2
latency_us = 3
)";

std::string problem(const std::string& machine, const std::string& compute = "fp32") {
  try {
    parse_machine_text(machine, "machine.toml", compute);
  } catch (const bert_hpc::core::Error& error) {
    CHECK(error.code() == bert_hpc::core::ExitCode::input);
    return error.what();
  }
  return "no problem";
}

std::string without(const std::string& line) {
  std::string result = text;
  return result.erase(result.find(line), line.size());
}

}  // namespace

TEST_CASE("a machine's numbers come in bytes, seconds and operations") {
  const auto machine = parse_machine_text(text, "machine.toml", "fp32");
  CHECK(machine.name == "test");
  CHECK(machine.measured);
  CHECK(machine.node_ranks == 4);
  CHECK(machine.memory == 2.0 * 1024 * 1024 * 1024);
  CHECK(machine.memory_bandwidth == 30e9);
  CHECK(machine.flops == 50e9);
  CHECK(machine.in_node.bandwidth == 8e9);
  CHECK(machine.between_nodes.latency == 3 * 1e-6);
  CHECK(parse_machine_text(text, "machine.toml", "bf16").flops == 100e9);
}

TEST_CASE("a machine that is not complete or not understood is refused") {
  CHECK_THAT(problem(text, "fp8"), ContainsSubstring("fp8_gflops is not given"));
  CHECK_THAT(problem(without("ranks = 4\n")), ContainsSubstring("ranks"));
  CHECK_THAT(problem(without("latency_us = 3\n")), ContainsSubstring("latency_us"));
  CHECK_THAT(problem(text + "latency_ms = 3\n"), ContainsSubstring("latency_us"));
  CHECK_THAT(problem("[rank]\nefficiency = 1.5\n"), ContainsSubstring("efficiency"));
}

TEST_CASE("the machines that come with the program are whole") {
  const std::string folder = BERT_HPC_TESTS_DIRECTORY "/../input/";
  CHECK(parse_machine(folder + "machine_h100_node.toml", "bf16").node_ranks == 8);
  CHECK(parse_machine(folder + "machine_cpu_node.toml", "fp32").node_ranks == 24);
}
