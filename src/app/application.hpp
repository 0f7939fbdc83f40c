// The program behind main(): what each mode does, from the input to the results on disk.
#pragma once

#include "app/run/run_context.hpp"

namespace bert_hpc::app {

/// Collective over all ranks. Returns the exit status, the same on every rank. Throws core::Error if a rank fails
/// alone: the caller then ends all ranks.
/// The device layer is up, unless the input is only validated.
int run_application(const Invocation& invocation, comm::Communicator& world, int threads, StopRequest& requests,
                    const core::DeviceChoice& device = {});

}  // namespace bert_hpc::app
