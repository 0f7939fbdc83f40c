// MPI as a whole: initialisation and finalization, errors, the ranks of this host. MPI functions return errors, which
// become core::Error, so that the message names the operation.
#include <mpi.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <system_error>
#include <thread>

#include "bert_hpc/comm/launch.hpp"
#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/core/environment.hpp"
#include "bert_hpc/core/error.hpp"
#include "check_mpi.hpp"

namespace bert_hpc::comm {

void check_mpi(int status, const char* operation) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw core::Error(core::ExitCode::communication, std::string("MPI failed in ") + operation + ": " +
                                                       std::string(text, static_cast<std::size_t>(length)));
}

namespace {

/// Open MPI starts a daemon for a process without a launcher and looks for every network; a rank alone needs neither.
/// bert_hpc --validate then takes 0.1 s instead of 0.5 s (Open MPI 4.1.4). Without a daemon all such processes of a
/// user on a node would have one directory for their files, and remove it while another starts; a rank alone needs
/// none. What the user has set stays.
void start_without_daemon() {
  setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
  setenv("OMPI_MCA_orte_create_session_dirs", "0", 0);
  setenv("OMPI_MCA_pml", "ob1", 0);
}

}  // namespace

MpiRuntime::MpiRuntime(int* argc, char*** argv) {
  if (starts_alone(core::environment)) start_without_daemon();
  // A dying rank closes its connections. MPI must see the failed write; SIGPIPE must not end this rank.
  std::signal(SIGPIPE, SIG_IGN);
  int provided = 0;
  // Only the main thread calls MPI; the I/O thread of a rank does not.
  check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (provided < MPI_THREAD_FUNNELED) {
    throw core::Error(core::ExitCode::communication,
                      "this MPI library offers no thread support (MPI_THREAD_FUNNELED is needed).");
  }
}

MpiRuntime::~MpiRuntime() {
  MPI_Finalize();
}

std::string MpiRuntime::description() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string version(text, static_cast<std::size_t>(length));
  // Open MPI's text continues with package, ident and date; the part before the first comma suffices.
  std::string name = version.substr(0, version.find_first_of(",\n"));
  if (name.starts_with("Open MPI v")) name.erase(9, 1);
  return name;
}

NodePosition position_on_node() {
  MPI_Comm node = MPI_COMM_NULL;
  int rank = 0;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node),
            "MPI_Comm_split_type");
  NodePosition position;
  check_mpi(MPI_Comm_rank(node, &position.rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(node, &position.ranks), "MPI_Comm_size");
  MPI_Comm_free(&node);
  return position;
}

void abort_all_ranks(int exit_status) {
  // Another thread may be inside MPI and hold a lock that MPI_Abort needs, or hang. This process ends in any case.
  try {
    std::thread([exit_status] {
      constexpr auto grace = std::chrono::seconds(4);
      std::this_thread::sleep_for(grace);
      std::_Exit(exit_status);
    }).detach();
  } catch (const std::system_error&) {  // no thread available: rely on MPI_Abort
  }
  // A single rank has no others to end: its own exit gives the same status without Open MPI's messages.
  int ranks = 0;
  if (MPI_Comm_size(MPI_COMM_WORLD, &ranks) == MPI_SUCCESS && ranks == 1) std::_Exit(exit_status);
  MPI_Abort(MPI_COMM_WORLD, exit_status);
  std::_Exit(exit_status);
}

}  // namespace bert_hpc::comm
