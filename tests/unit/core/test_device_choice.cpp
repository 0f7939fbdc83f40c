#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "bert_hpc/core/device_choice.hpp"
#include "bert_hpc/core/error.hpp"

using namespace bert_hpc::core;

TEST_CASE("a GPU's NUMA node is the one that the system states for its PCI address") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("bert_hpc_pci_" + std::to_string(getpid()));
  const auto write_numa_node = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories(folder / name);
    std::ofstream(folder / name / "numa_node") << text;
  };
  write_numa_node("0000:3b:00.0", "1\n");
  write_numa_node("0000:5e:00.0", "-1\n");  // a machine without NUMA
  write_numa_node("0000:86:00.0", "");
  CHECK(numa_node_of_pci("0000:3B:00.0", folder.string()) == 1);  // CUDA writes capitals
  CHECK(numa_node_of_pci("0000:5E:00.0", folder.string()) == -1);
  CHECK(numa_node_of_pci("0000:86:00.0", folder.string()) == -1);
  CHECK(numa_node_of_pci("0000:FF:00.0", folder.string()) == -1);
  CHECK(numa_node_of_pci("", folder.string()) == -1);
  std::filesystem::remove_all(folder);
}

TEST_CASE("a GPU's identifier is written as NVML does, that of a part of a GPU too") {
  const std::array<unsigned char, 16> uuid = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                                              0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10};
  CHECK(device_identity("NVIDIA H100 80GB HBM3", uuid) == "GPU-01234567-89ab-cdef-fedc-ba9876543210");
  CHECK(device_identity("NVIDIA H100 80GB HBM3 MIG 1g.10gb", uuid) == "MIG-01234567-89ab-cdef-fedc-ba9876543210");
}

TEST_CASE("the preference for a GPU's cache is none or that of Kokkos") {
  CHECK(gpu_cache_of("") == GpuCache::none);
  CHECK(gpu_cache_of("none") == GpuCache::none);
  CHECK(gpu_cache_of("kokkos") == GpuCache::kokkos);
  CHECK_THROWS_AS(gpu_cache_of("l1"), Error);
}
