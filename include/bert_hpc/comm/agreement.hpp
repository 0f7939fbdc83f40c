// How the ranks of a group agree on a failure: work that may fail on some ranks only runs on all of them, and where it
// fails, every rank throws the same error, so that all leave in order with one exit status.
#pragma once

#include <functional>
#include <string>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/error.hpp"

namespace bert_hpc::comm {

/// An error that every rank throws alike: one rank reports it for all.
class AgreedError : public core::Error {
 public:
  /// Every rank finds it by itself: after a reduction, or from the same input.
  AgreedError(core::ExitCode code, const std::string& message) : core::Error(code, message) {}
  /// Rank `rank` has failed.
  AgreedError(const core::Error& failure, int rank) : core::Error(failure), rank_(rank) {}

  int rank() const { return rank_; }  ///< the lowest rank that has failed; -1: all of them

 private:
  int rank_ = -1;
};

/// Collective. Runs `work`, which makes no collective calls, on every rank. Where it throws on some, every rank throws
/// AgreedError with code and message of the lowest of these. `memory_advice`: what needs less memory, see
/// core::as_error().
void agree(Communicator& group, const std::function<void()>& work, const std::string& memory_advice);

}  // namespace bert_hpc::comm
