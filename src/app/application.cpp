#include "bert_hpc/app/application.hpp"

#include <filesystem>

#include "bert_hpc/app/collective.hpp"
#include "bert_hpc/app/training_run.hpp"

namespace bert_hpc::app {
namespace {

/// Rank 0 reads the file once for all: a thousand ranks opening one file at once hurts shared file systems.
config::Config read_input(const Invocation& invocation, comm::Communicator& world) {
  std::string text;
  collectively(world, [&] {
    if (world.rank() == 0) text = config::read_input_text(invocation.input_path);
  });
  text = world.broadcast(text, 0);
  config::Config input;
  collectively(world, [&] {
    input = config::parse_config_text(text, invocation.input_path, invocation.overrides);
    config::require_valid(input, world.size());
  });
  return input;
}

}  // namespace

int run_application(const Invocation& invocation, comm::Communicator& world, comm::Communicator&, int threads) {
  try {
    const config::Config input = read_input(invocation, world);
    collectively(world, [&] {
      if (world.rank() != 0) return;
      std::error_code problem;
      std::filesystem::create_directories(input.run.directory, problem);
      if (problem) {
        throw core::Error(core::ExitCode::files, "the run directory " + input.run.directory + " cannot be made: " +
                                                     problem.message() + ". Name another one in run.directory.");
      }
    });
    return input.run.mode == "train" ? run_training(input, invocation, world, threads)
                                     : run_evaluation(input, invocation, world, threads);
  } catch (const Stop& stop) {
    return static_cast<int>(stop.code);
  } catch (const AgreedError& error) {
    if (world.rank() == 0) report(error, 0);
    return static_cast<int>(error.code());
  }
}

}  // namespace bert_hpc::app
