#include "app/engine/memory_plan.hpp"

namespace bert_hpc::app {

std::int64_t total(const MemoryPlan& plan) {
  std::int64_t bytes = 0;
  for (const auto& [name, part] : plan) bytes += part;
  return bytes;
}

}  // namespace bert_hpc::app
