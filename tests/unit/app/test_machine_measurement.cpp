// What a machine measurement writes and refuses; which ranks share a node.
#include "app/report/machine_measurement.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace bert_hpc;
using Catch::Matchers::StartsWith;

TEST_CASE("a machine file begins with its mark and reads back") {
  config::MachineFile file;
  file.name = "test";
  file.memory_gib = 1;
  file.memory_gb_per_second = 10;
  file.gflops[0] = 100;
  file.in_node = {.gb_per_second = 1, .latency_us = 1};
  file.between_nodes = {.gb_per_second = 1, .latency_us = 1};
  const std::string text = app::machine_file_text(file, "# now and here\n");
  CHECK_THAT(text, StartsWith(std::string(app::machine_file_mark) + "\n# now and here\n"));
  CHECK(config::parse_machine_text(text, "machine.toml", "fp32").flops == 100e9);
}

TEST_CASE("a machine file has three significant digits of every rate, however large") {
  config::MachineFile file;
  file.name = "test";
  file.memory_gib = 1511.7;
  file.memory_gb_per_second = 4021.3;
  file.gflops[0] = 413456.7;
  file.in_node = {.gb_per_second = 18.344, .latency_us = 0.26549, .gather_gb_per_second = 1834.4};
  file.between_nodes = {.gb_per_second = 1, .latency_us = 1};
  const core::MachineDescription read =
      config::parse_machine_text(app::machine_file_text(file, "# now and here\n"), "machine.toml", "fp32");
  CHECK(read.flops == 413e12);
  CHECK(read.in_node.bandwidth == 18.3e9);
  CHECK(read.in_node.gather_bandwidth == 1830e9);
  CHECK(read.in_node.latency == 0.265e-6);
}
