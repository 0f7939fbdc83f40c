#include "bert_hpc/core/device_choice.hpp"

#include <cctype>
#include <fstream>
#include <map>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::core {

int numa_node_of_pci(const std::string& address, const std::string& folder) {
  std::string name;
  for (const char c : address) name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  int node = -1;
  std::ifstream file(folder + '/' + name + "/numa_node");
  return !name.empty() && file >> node && node >= 0 ? node : -1;
}

GpuCache gpu_cache_of(const std::string& text) {
  if (text.empty() || text == "none") return GpuCache::none;
  if (text == "kokkos") return GpuCache::kokkos;
  throw Error(ExitCode::input, "BERT_HPC_GPU_CACHE=" + text + " is neither none nor kokkos.");
}

std::string device_identity(const std::string& name, std::span<const unsigned char, 16> uuid) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text = name.find(" MIG ") != std::string::npos ? "MIG-" : "GPU-";
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits[uuid[i] >> 4];
    text += digits[uuid[i] & 15];
  }
  return text;
}

std::string shared_device_problem(const std::vector<std::string>& identities) {
  std::map<std::string, std::size_t> first;
  for (std::size_t rank = 0; rank < identities.size(); ++rank) {
    if (identities[rank].empty()) continue;
    const auto [found, is_new] = first.try_emplace(identities[rank], rank);
    if (is_new) continue;
    return "ranks " + std::to_string(found->second) + " and " + std::to_string(rank) + " would use one GPU (" +
           identities[rank] +
           "). Start one rank per GPU (under Slurm: --ntasks-per-node=N --gpus-per-node=N --gpu-bind=none; elsewhere "
           "as "
           "many ranks per node as CUDA_VISIBLE_DEVICES lists); for tests, [parallel] allow_shared_devices = true.";
  }
  return {};
}

}  // namespace bert_hpc::core
