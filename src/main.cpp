// bert_hpc: trains, evaluates and applies BERT-class models on the ranks of an MPI job.
#include <unistd.h>

#include <cstdio>
#include <optional>

#include "app/application.hpp"
#include "app/report/machine_measurement.hpp"
#include "app/report/version_answer.hpp"
#include "app/run/collective.hpp"
#include "app/run/stop_request.hpp"
#include "bert_hpc/comm/launch.hpp"
#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/config/command_line.hpp"
#include "bert_hpc/core/device_choice.hpp"
#include "bert_hpc/core/device_runtime.hpp"
#include "bert_hpc/core/installation.hpp"
#include "bert_hpc/core/standard_streams.hpp"

using namespace bert_hpc;

int main(int argc, char** argv) {
  const config::Program program{"bert_hpc",
                                "Trains, evaluates and applies BERT-class models on the ranks of an MPI job.", true,
                                core::share_folder()};
  app::StopRequest requests;  // before any slow step: an unhandled signal would end the job
  core::keep_standard_streams();
  // 1. MPI first: launchers expect every process to initialize it, whatever the command line says.
  comm::MpiRuntime mpi(&argc, &argv);
  const auto world = comm::make_world_communicator();
  if (const comm::LaunchProblem problem = comm::launch_problem(world->size()); !problem.text.empty()) {
    if (problem.is_first) app::report(core::Error(core::ExitCode::communication, problem.text), 0);
    return static_cast<int>(core::ExitCode::communication);
  }
  try {
    // 2. The command line; --help, --version and --example print their answer once.
    config::CommandLine line;
    app::collectively(*world, [&] { line = config::parse_command_line({argv + 1, argv + argc}, program); });
    using Action = config::CommandLine::Action;
    if (line.action != Action::run && line.action != Action::measure) {
      if (world->rank() == 0) std::fputs(app::answer(line, program).c_str(), stdout);
      return 0;
    }
    if (line.validate) requests.end_at_once();
    // 3. The device, then the run. Validation alone needs no device.
    std::optional<core::DeviceRuntime> device;
    const bool computes = !line.validate || core::DeviceRuntime::missing_device().empty();
    const comm::NodePosition position = comm::position_on_node();
    core::DeviceChoice choice;
    app::collectively(*world, [&] {
      if (!computes) return;
      choice = core::choose_device(position.rank);
      device.emplace();
    });
    if (line.action == Action::measure) {
      core::Log log = world->rank() == 0 ? core::Log(STDOUT_FILENO) : core::Log();
      app::measure_machine(line.machine_file, *world, device->threads(), choice, log);
      return 0;
    }
    const app::Invocation invocation{.input_path = line.input,
                                     .overrides = line.overrides,
                                     .validate = line.validate,
                                     .overwrite = line.overwrite,
                                     .validate_ranks = line.validate_ranks,
                                     .planned_tokens = line.planned_tokens,
                                     .planned_mean_length = line.planned_mean_length};
    return app::run_application(invocation, *world, device ? device->threads() : 1, requests, choice);
  } catch (const app::Stop& stop) {
    return static_cast<int>(stop.code);
  } catch (const std::exception& error) {
    // 4. An error that only this rank knows ends all ranks.
    app::end_all_ranks(error, world->rank(), {});
  }
}
