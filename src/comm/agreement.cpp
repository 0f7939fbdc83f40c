#include "bert_hpc/comm/agreement.hpp"

#include <optional>
#include <utility>

#include "bert_hpc/comm/objects.hpp"

namespace bert_hpc::comm {

void agree(Communicator& group, const std::function<void()>& work, const std::string& memory_advice) {
  std::optional<core::Error> failure;
  try {
    work();
  } catch (const std::exception& error) {
    failure = core::as_error(error, memory_advice);
  }
  std::int64_t lowest = failure ? group.rank() : group.size();
  group.all_reduce(std::span(&lowest, 1), Reduction::minimum);
  if (lowest == group.size()) return;
  const int rank = static_cast<int>(lowest);
  std::pair<core::ExitCode, std::string> found;
  if (failure) found = {failure->code(), failure->what()};
  found = broadcast_object(group, found, rank);
  if (rank == group.rank()) throw AgreedError(*failure, rank);
  throw AgreedError(core::Error(found.first, found.second), rank);
}

}  // namespace bert_hpc::comm
