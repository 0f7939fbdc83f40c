#include "app/run/collective.hpp"

#include <cstdio>

#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/io/provenance.hpp"

namespace bert_hpc::app {
namespace {

const std::string memory_advice =
    "lower batch.global or set batch.micro_tokens to a lower value; --validate prints the memory that is needed";

}  // namespace

void report(const core::Error& error, int rank) {
  const std::string text = core::describe("bert_hpc", error, rank > 0 ? rank : -1, io::host_name());
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

core::Error as_error(const std::exception& thrown) {
  return core::as_error(thrown, memory_advice);
}

void end_all_ranks(const std::exception& thrown, int rank, const FailureMark& mark) {
  const core::Error error = as_error(thrown);
  report(error, rank);
  mark.leave();
  comm::abort_all_ranks(static_cast<int>(error.code()));
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
  try {
    comm::agree(world, work, memory_advice);
  } catch (const AgreedError& error) {
    if (error.rank() == world.rank()) report(error, error.rank());
    throw Stop{error.code()};
  }
}

}  // namespace bert_hpc::app
