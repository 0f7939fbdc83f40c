#include "bert_hpc/app/run/collective.hpp"

#include <cstdio>
#include <optional>

#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/io/provenance.hpp"

namespace bert_hpc::app {

void report(const core::Error& error, int rank) {
  const std::string text = core::describe("bert_hpc", error, rank > 0 ? rank : -1, io::host_name());
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

core::Error as_error(const std::exception& thrown) {
  return core::as_error(
      thrown,
      "lower batch.global or set batch.micro_tokens to a lower value; --validate prints the memory that is needed");
}

void end_all_ranks(const std::exception& thrown, int rank, const FailureMark& mark) {
  const core::Error told = as_error(thrown);
  report(told, rank);
  mark.leave();
  comm::abort_all_ranks(static_cast<int>(told.code()));
}

void alone_ends_all(int rank, const FailureMark& mark, const std::function<void()>& work) {
  try {
    work();
  } catch (const AgreedError&) {
    throw;
  } catch (const std::exception& failure) {  // Stop is none
    end_all_ranks(failure, rank, mark);
  }
}

void collectively(comm::Communicator& world, const std::function<void()>& work) {
  std::optional<core::Error> failure;
  try {
    work();
  } catch (const std::exception& error) {
    failure = as_error(error);
  }
  const double nobody = world.size();
  const int speaker = static_cast<int>(world.minimum(failure ? double(world.rank()) : nobody));
  if (speaker == world.size()) return;
  if (speaker == world.rank()) report(*failure, world.rank());
  std::int64_t code = speaker == world.rank() ? static_cast<std::int64_t>(failure->code()) : 0;
  world.broadcast(std::as_writable_bytes(std::span(&code, 1)), speaker);
  throw Stop{static_cast<core::ExitCode>(code)};
}

}  // namespace bert_hpc::app
