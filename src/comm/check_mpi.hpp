// MPI functions return errors, which become core::Error, so that the message names the operation.
#pragma once

#include <mpi.h>

namespace bert_hpc::comm {

/// Throws Error(communication) with MPI's error text if status is not MPI_SUCCESS. `operation`: e.g. "MPI_Barrier".
void check_mpi(int status, const char* operation);

}  // namespace bert_hpc::comm
