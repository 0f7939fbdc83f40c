// The main of the test programs in tests/mpi: every rank runs every case. Rank 0 reports as usual; the report of
// another rank is shown only if it failed. The ranks agree on the verdict, so that the launcher's status does not
// depend on which rank failed. A case must reduce its own verdict before a collective that a failed rank would not
// reach.
#include <mpi.h>

#include <algorithm>
#include <catch2/catch_session.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>

#include "bert_hpc/core/device_choice.hpp"
#include "bert_hpc/core/device_runtime.hpp"
#include "support/device_calls.hpp"

namespace {

// A case that waits for a failed rank hangs until the launcher's time limit ends it, so a failing rank writes its
// report at once.
int run_session(int argc, char** argv, int rank) {
  Catch::Session session;
  if (const int status = session.applyCommandLine(argc, argv); status != 0) return status;
  std::ostringstream report;
  std::streambuf* const before = rank == 0 ? nullptr : std::cout.rdbuf(report.rdbuf());
  const int status = session.run();
  if (before != nullptr) {
    std::cout.rdbuf(before);
    if (status != 0 && status != 4) std::fprintf(stderr, "rank %d:\n%s\n", rank, report.str().c_str());
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int status = 0;
  if (const std::string missing = bert_hpc::core::DeviceRuntime::missing_device(); !missing.empty()) {
    if (rank == 0) std::printf("skipped: %s\n", missing.c_str());
    status = 4;  // Catch2's status for runs in which everything was skipped
  } else {
    bert_hpc::core::choose_device(rank);
    const bert_hpc::core::DeviceRuntime runtime;
    bert_hpc::test::DeviceCalls::of_thread();
    status = run_session(argc, argv, rank);
  }
  int worst = 0;
  MPI_Allreduce(&status, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return std::min(worst, 255);
}
