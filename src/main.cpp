// bert_hpc: trains, evaluates and applies BERT-class models on the ranks of an MPI job.
#include <string>

#include "bert_hpc/app/application.hpp"
#include "bert_hpc/app/collective.hpp"
#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/core/device_runtime.hpp"

int main(int argc, char** argv) {
  using namespace bert_hpc;
  comm::MpiRuntime mpi(&argc, &argv);
  const auto world = comm::make_world_communicator();
  const auto node = comm::make_node_communicator();
  try {
    core::DeviceRuntime device;
    app::Invocation invocation;
    for (int i = 1; i < argc; ++i) {
      if (std::string(argv[i]) == "--set" && i + 1 < argc) {
        invocation.overrides.push_back(argv[++i]);
      } else {
        invocation.input_path = argv[i];
      }
    }
    return app::run_application(invocation, *world, *node, device.threads());
  } catch (const core::Error& error) {
    app::report(error, world->rank());
    comm::abort_all_ranks(static_cast<int>(error.code()));
  }
}
