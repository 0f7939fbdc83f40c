#include "app/application.hpp"

#include <unistd.h>

#include <csignal>
#include <cstring>
#include <functional>
#include <set>

#include "app/embedding_run.hpp"
#include "app/evaluation_run.hpp"
#include "app/load_input.hpp"
#include "app/run/collective.hpp"
#include "app/run/machine.hpp"
#include "app/run/watchdog.hpp"
#include "app/run_start.hpp"
#include "app/search_run.hpp"
#include "app/training_run.hpp"
#include "bert_hpc/comm/checked_communicator.hpp"
#include "bert_hpc/comm/device_communicator.hpp"
#include "bert_hpc/core/environment.hpp"
#include "bert_hpc/ops/fusion.hpp"

namespace bert_hpc::app {
namespace {

/// Rank 0 reads the file once for all: a thousand ranks opening one file at once hurts shared file systems.
LoadedInput read_input(const Invocation& invocation, comm::Communicator& world) {
  std::string text;
  collectively(world, [&] {
    if (world.rank() == 0) text = config::read_input_text(invocation.input_path);
  });
  text = world.broadcast(text, 0);
  LoadedInput result;
  collectively(world, [&] {
    const int ranks = invocation.validate_ranks > 0 ? invocation.validate_ranks : world.size();
    result = load_input(text, invocation, ranks, world.rank() == 0);
  });
  return result;
}

/// Reports each kind of signal once: launchers repeat them, and what mpirun sends after SIGCONT was announced with it.
std::function<void(int)> announcement(const StopRequest& requests, bool trains, const core::Activity& activity,
                                      core::Log& log) {
  return [&requests, trains, &activity, &log, heard = std::set<int>()](int signal) mutable {
    const bool steps = trains && std::strcmp(activity.section(), core::Activity::first_section) != 0;
    const bool repeats = signal != SIGUSR2 && !heard.insert(signal).second;
    const bool announced = signal == SIGTERM && requests.is_by_launcher() && heard.contains(SIGCONT);
    if (repeats || announced) return;
    log.info(
        signal_notice(signal, requests.kill_interval(), activity.step(), steps, relayed_request(core::environment)));
  };
}

/// What floats travel over where that is not `world`; `failure` must outlive it.
std::unique_ptr<comm::Communicator> connect_devices(const config::Config& input, const Invocation& invocation,
                                                    comm::Communicator& world, const core::DeviceChoice& device,
                                                    const FailureMark& failure) {
  if (invocation.validate || device.identity.empty()) return nullptr;
  const std::string problem = core::shared_device_problem(world.all_gather(device.identity));
  collectively(world, [&] {
    if (problem.empty() || input.parallel.allow_shared_devices) return;
    throw core::Error(core::ExitCode::input, problem);
  });
  return comm::make_device_communicator(world, !problem.empty(), [&failure] { failure.leave(); });
}

}  // namespace

int run_application(const Invocation& invocation, comm::Communicator& world, int threads, StopRequest& requests,
                    const core::DeviceChoice& device) {
  const auto begin = std::chrono::steady_clock::now();
  core::Log log = world.rank() == 0 ? core::Log(STDOUT_FILENO) : core::Log();
  core::Activity activity;
  FailureMark failure;
  try {
    const LoadedInput given = read_input(invocation, world);
    const config::Config& input = given.config;
    ops::set_fusion(ops::fusion_of(input.run.epilogues));
    const Watchdog watchdog({input.run.watchdog_seconds, input.run.watchdog_limit_seconds}, world, activity, log,
                            failure);
    SignalListener listener(requests, announcement(requests, input.trains(), activity, log));
    const std::unique_ptr<comm::Communicator> devices = connect_devices(input, invocation, world, device, failure);
    comm::Communicator& ranks = devices ? *devices : world;
    std::unique_ptr<comm::Communicator> checked;
    if (input.debug.check_collectives) {
      checked = comm::make_checked_communicator(ranks, {.timeout_seconds = input.debug.collective_timeout_seconds});
    }
    const RunContext context{{input, checked ? *checked : ranks, log},
                             invocation,
                             given.grid,
                             threads,
                             device,
                             begin,
                             process_memory().resident,
                             activity,
                             failure,
                             given.resolved,
                             requests,
                             listener,
                             given.planned_machine};
    collectively(context.world, [&] {
      if (world.rank() == 0) check_directory(context);
    });
    leave_if_asked(context);
    if (input.trains()) {
      run_training(context);
    } else if (input.embeds()) {
      run_embedding(context);
    } else if (input.searches()) {
      run_search(context);
    } else {
      run_evaluation(context);
    }
    return 0;
  } catch (const Stop& stop) {
    return static_cast<int>(stop.code);
  } catch (const AgreedError& error) {
    if (world.rank() == 0) report(error, 0);
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    end_all_ranks(error, world.rank(), failure);  // here, where the mark is known
  }
}

}  // namespace bert_hpc::app
