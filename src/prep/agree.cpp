// How ranks agree on a failure: the lowest rank that failed provides the message, which rank 0 prints,
// and all exit with the same status.
#include <optional>

#include "bert_hpc/prep/prepare.hpp"

namespace bert_hpc::prep {

using core::Error;
using core::ExitCode;

Error as_error(const std::exception& thrown) {
  return core::as_error(thrown,
                        "set output.shard_tokens lower; training a vocabulary (tokenizer.train_size) needs memory for "
                        "every distinct word");
}

void agree(comm::Communicator& group, const std::function<void()>& step) {
  std::optional<Error> mine;
  try {
    step();
  } catch (const std::exception& error) {
    mine = as_error(error);
  }
  std::int64_t first = mine ? group.rank() : group.size();
  group.all_reduce(std::span(&first, 1), comm::Reduction::minimum);
  if (first == group.size()) return;
  const int speaker = static_cast<int>(first);
  std::int64_t code = mine ? static_cast<std::int64_t>(mine->code()) : 0;
  group.broadcast(std::as_writable_bytes(std::span(&code, 1)), speaker);
  const std::string message = group.broadcast(mine ? std::string(mine->what()) : std::string(), speaker);
  throw AgreedError(static_cast<ExitCode>(code), message);
}

}  // namespace bert_hpc::prep
