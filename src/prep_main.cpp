// bert_hpc_prep: converts text to shards, under srun, mpirun or alone.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "bert_hpc/comm/launch.hpp"
#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/config/command_line.hpp"
#include "bert_hpc/config/example_input.hpp"
#include "bert_hpc/core/installation.hpp"
#include "bert_hpc/core/standard_streams.hpp"
#include "bert_hpc/prep/check.hpp"
#include "bert_hpc/prep/mining.hpp"
#include "bert_hpc/prep/prepare.hpp"
#include "bert_hpc/prep/version_facts.hpp"

namespace {

using namespace bert_hpc;

constexpr const char* program_name = "bert_hpc_prep";

config::Program own_program() {
  return {program_name,
          "Turns text into the shards that bert_hpc trains on; the shards are the same on any number of ranks.", false,
          core::share_folder()};
}

void say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void run(int argc, char** argv, comm::Communicator& world) {
  using Action = config::CommandLine::Action;
  const config::Program program = own_program();
  config::CommandLine line;
  prep::PrepConfig config;
  std::string replaced;
  std::vector<std::string> warnings;
  std::optional<prep::MiningConfig> mining;
  prep::agree(world, [&] {
    line = config::parse_command_line({argv + 1, argv + argc}, program);
    if (line.action != Action::run) return;
    mining = prep::mining_config(line.input, line.overrides);
    if (mining) {
      if (line.validate) prep::check_mining(*mining);
      return;
    }
    config = prep::given_config(line.input, line.overrides);
    if (!line.validate) return;
    warnings = prep::check_files(config);
    if (world.rank() == 0) replaced = prep::describe_replaced(config);
  });
  const bool is_root = world.rank() == 0;
  if (line.action == Action::help) {
    if (is_root) std::fputs(config::help_text(program).c_str(), stdout);
  } else if (line.action == Action::version) {
    if (is_root) std::fputs(core::version_text(program.name, prep::version_facts()).c_str(), stdout);
  } else if (line.action == Action::example) {
    if (is_root) std::fputs(std::string(config::example_input(program.name)).c_str(), stdout);
  } else if (line.validate) {
    if (is_root) {
      say(mining ? prep::resolved_toml(*mining) : prep::resolved_toml(config));
      for (const std::string& warning : warnings) say("warning: " + warning);
      if (!replaced.empty()) say("would replace " + replaced);
      say(line.input + ": no problem found");
    }
  } else if (mining) {
    const prep::MiningSummary summary = prep::mine(*mining, world, say);
    if (is_root) std::fputs(prep::describe(summary, *mining).c_str(), stdout);
  } else {
    const prep::Summary summary = prep::prepare(config, world, say);
    if (is_root) std::fputs(prep::describe(summary, config).c_str(), stdout);
  }
}

void complain(const core::Error& error, int rank) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  std::fputs(core::describe(program_name, error, rank, host).c_str(), stderr);
}

/// Returns the exit status. Rank 0 reports an error that all ranks know; a rank that fails alone ends the others.
int run_or_report(int argc, char** argv, comm::Communicator& world) {
  try {
    run(argc, argv, world);
    return 0;
  } catch (const prep::AgreedError& error) {
    if (world.rank() == 0) complain(error, -1);
    return static_cast<int>(error.code());
  } catch (const std::exception& thrown) {
    const core::Error error = prep::as_error(thrown);
    complain(error, world.size() > 1 ? world.rank() : -1);
    if (world.size() > 1) comm::abort_all_ranks(static_cast<int>(error.code()));
    return static_cast<int>(error.code());
  }
}

}  // namespace

int main(int argc, char** argv) {
  core::keep_standard_streams();
  comm::MpiRuntime mpi(&argc, &argv);
  const auto world = comm::make_world_communicator();
  if (const comm::LaunchProblem problem = comm::launch_problem(world->size()); !problem.text.empty()) {
    if (problem.is_first) complain(core::Error(core::ExitCode::communication, problem.text), -1);
    return static_cast<int>(core::ExitCode::communication);
  }
  return run_or_report(argc, argv, *world);
}
