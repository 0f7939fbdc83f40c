#include "bert_hpc/config/machine_description.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <string>

#include "bert_hpc/core/error.hpp"
#include "support/tests_directory.hpp"

using bert_hpc::config::MachineFile;
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
  CHECK_THAT(problem(text, "fp8"), ContainsSubstring("fp8_gflops is missing"));
  CHECK_THAT(problem(without("ranks = 4\n")), ContainsSubstring("ranks"));
  CHECK_THAT(problem(without("latency_us = 3\n")), ContainsSubstring("latency_us"));
  CHECK_THAT(problem(text + "latency_ms = 3\n"), ContainsSubstring("latency_us"));
  CHECK_THAT(problem("[rank]\nefficiency = 1.5\n"), ContainsSubstring("efficiency"));
}

TEST_CASE("the descriptions of machines that come with the program are complete") {
  const std::string folder = (bert_hpc::test::tests_directory() / "../input/").string();
  for (const char* const gpu : {"machine_h100_node.toml", "machine_h200_node.toml"}) {
    for (const char* const compute : bert_hpc::config::machine_precisions) {
      const auto machine = parse_machine(folder + gpu, compute);
      CHECK(machine.node_ranks == 8);
      CHECK(machine.gpu);
    }
  }
  CHECK(parse_machine(folder + "machine_cpu_node.toml", "fp32").node_ranks == 24);
}

TEST_CASE("keys that older files lack have defaults") {
  const auto machine = parse_machine_text(text, "machine.toml", "fp32");
  CHECK(!machine.gpu);
  CHECK(machine.gemm.empty());
  CHECK(machine.activation_bandwidth == 0);
  CHECK(machine.attention_flops == 0);
  CHECK(machine.pass_overhead == 0);
  CHECK(machine.in_node.reduce_bandwidth == 0);
  CHECK(machine.storage_bandwidth == 0.5e9);
}

TEST_CASE("a written machine description reads back the same") {
  MachineFile file;
  file.name = "2 × some \"node\"";
  file.device = "gpu";
  file.measured = true;
  file.node_ranks = 8;
  file.memory_gib = 80;
  file.memory_gb_per_second = 2000;
  file.gflops[0] = 50000;
  file.gflops[2] = 400000.5;
  file.gemm_hidden = {128, 768};
  file.gemm_gflops[2] = {10000, 400000};
  file.attention_row_ns = 0.5;
  file.pass_us = 12;
  file.in_node = {.gb_per_second = 300, .latency_us = 3, .reduce_gb_per_second = 200};
  file.between_nodes = {.gb_per_second = 25, .latency_us = 5};
  const std::string written = bert_hpc::config::machine_text(file);
  CHECK(bert_hpc::config::machine_text(bert_hpc::config::read_machine_text(written, "again")) == written);
  CHECK_THAT(written, !ContainsSubstring("[]"));
  const auto machine = parse_machine_text(written, "machine.toml", "bf16");
  CHECK(machine.name == file.name);
  CHECK(machine.gpu);
  REQUIRE(machine.gemm.size() == 2);
  CHECK(machine.gemm[1].flops == 400e12);
  CHECK(machine.attention_row == 0.5e-9);
  CHECK(machine.in_node.reduce_bandwidth == 200e9);
  CHECK(machine.in_node.gather_bandwidth == 0);
}

TEST_CASE("GEMM rates belong to ascending sizes, one to each") {
  CHECK_THAT(problem(text + "[gemm]\nhidden = [128, 768]\nfp32_gflops = [50]\n"),
             ContainsSubstring("one rate for each size"));
  CHECK_THAT(problem(text + "[gemm]\nhidden = [768, 128]\nfp32_gflops = [50, 40]\n"), ContainsSubstring("ascending"));
}

TEST_CASE("the GEMM rate of a size lies between those of its neighbours") {
  bert_hpc::core::MachineDescription machine;
  machine.flops = 1;
  CHECK(bert_hpc::core::at_hidden(machine, 256).flops == 1);
  machine.gemm = {{128, 50}, {512, 100}};
  CHECK(bert_hpc::core::at_hidden(machine, 64).flops == 50);
  CHECK(bert_hpc::core::at_hidden(machine, 128).flops == 50);
  CHECK(std::abs(bert_hpc::core::at_hidden(machine, 256).flops - 75) < 1e-9);
  CHECK(bert_hpc::core::at_hidden(machine, 512).flops == 100);
  CHECK(bert_hpc::core::at_hidden(machine, 1024).flops == 100);
}
