// Agreement of a group's ranks on a failure. All ranks run work that may fail on some of them. If it fails anywhere,
// every rank throws the same error, so that all ranks exit in order with one exit status.
#pragma once

#include <functional>
#include <string>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/error.hpp"

namespace bert_hpc::comm {

/// An error that all ranks of a group throw together; one rank reports it for all.
class AgreedError : public core::Error {
 public:
  /// For an error that every rank detects itself, after a reduction or from the same input.
  AgreedError(core::ExitCode code, const std::string& message) : core::Error(code, message) {}
  /// For a failure of rank `rank`.
  AgreedError(const core::Error& failure, int rank) : core::Error(failure), rank_(rank) {}

  int rank() const { return rank_; }  ///< the lowest rank that has failed; -1: all of them

 private:
  int rank_ = -1;
};

/// Collective. Runs `work`, which makes no collective calls, on every rank. If it throws on any rank, every rank throws
/// AgreedError with the code and message of the lowest such rank. `memory_advice`: how to need less memory, see
/// core::as_error().
void agree(Communicator& group, const std::function<void()>& work, const std::string& memory_advice);

}  // namespace bert_hpc::comm
