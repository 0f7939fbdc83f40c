#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "bert_hpc/core/device_choice.hpp"

using namespace bert_hpc::core;

TEST_CASE("a GPU's NUMA node is what the system says of its PCI address") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("bert_hpc_pci_" + std::to_string(getpid()));
  const auto tell = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories(folder / name);
    std::ofstream(folder / name / "numa_node") << text;
  };
  tell("0000:3b:00.0", "1\n");
  tell("0000:5e:00.0", "-1\n");  // a machine without NUMA
  tell("0000:86:00.0", "");
  CHECK(numa_node_of_pci("0000:3B:00.0", folder.string()) == 1);  // CUDA writes capitals
  CHECK(numa_node_of_pci("0000:5E:00.0", folder.string()) == -1);
  CHECK(numa_node_of_pci("0000:86:00.0", folder.string()) == -1);
  CHECK(numa_node_of_pci("0000:FF:00.0", folder.string()) == -1);
  CHECK(numa_node_of_pci("", folder.string()) == -1);
  std::filesystem::remove_all(folder);
}
