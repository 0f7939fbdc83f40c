// bert_hpc_prep: text to shards. Under srun, mpirun or alone.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/core/version.hpp"
#include "bert_hpc/prep/prepare.hpp"

namespace {

using namespace bert_hpc;

constexpr const char* usage =
    "usage: bert_hpc_prep INPUT.toml [--set table.key=VALUE]... [--validate] [--version] [--help]\n"
    "Turns text into the shards that bert_hpc trains on. Runs under srun or mpirun too; the shards are the same.\n"
    "  --set       a value that wins over the file's, in TOML: --set split.seed=7 --set 'output.directory=\"shards\"'\n"
    "  --validate  checks the input, the files and their columns, prints the resolved input and leaves\n";

struct CommandLine {
  std::string input;
  std::vector<std::string> overrides;
  bool validate = false, version = false, help = false;
};

CommandLine parse(int argc, char** argv) {
  CommandLine line;
  const auto refuse = [](const std::string& what) { throw core::Error(core::ExitCode::input, what + "\n" + usage); };
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--help" || word == "-h") {
      line.help = true;
    } else if (word == "--version") {
      line.version = true;
    } else if (word == "--validate") {
      line.validate = true;
    } else if (word == "--set" && i + 1 < argc) {
      line.overrides.emplace_back(argv[++i]);
    } else if (word.starts_with("--set=")) {
      line.overrides.emplace_back(word.substr(6));
    } else if (word.starts_with("-")) {
      refuse("unknown or incomplete option " + std::string(word));
    } else if (line.input.empty()) {
      line.input = word;
    } else {
      refuse("more than one input file: " + line.input + " and " + std::string(word));
    }
  }
  if (line.input.empty() && !line.help && !line.version) refuse("no input file is given");
  return line;
}

void say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void run(int argc, char** argv, comm::Communicator& world) {
  CommandLine line;
  prep::PrepConfig config;
  prep::agree(world, [&] {
    line = parse(argc, argv);
    if (line.help || line.version) return;
    config = prep::read_prep_config(line.input, line.overrides);
    if (line.validate) prep::check_files(config);
  });
  const bool speaks = world.rank() == 0;
  if (line.help || line.version) {
    if (!speaks) return;
    if (line.help) std::fputs(usage, stdout);
    if (line.version) say("bert_hpc_prep " + std::string(core::version()) + " (" + std::string(core::revision()) + ")");
  } else if (line.validate) {
    if (speaks) say(prep::resolved_toml(config) + "\n" + line.input + ": no problem found");
  } else {
    const prep::Summary summary = prep::prepare(config, world, say);
    if (speaks) std::fputs(prep::describe(summary, config).c_str(), stdout);
  }
}

void complain(const core::Error& error, int rank) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  std::fputs(core::describe(error, rank, host).c_str(), stderr);
}

/// Exit status. What all ranks know, rank 0 tells; a rank that fails alone ends the others.
int run_or_report(int argc, char** argv, comm::Communicator& world) {
  try {
    run(argc, argv, world);
    return 0;
  } catch (const prep::AgreedError& error) {
    if (world.rank() == 0) complain(error, -1);
    return static_cast<int>(error.code());
  } catch (const core::Error& error) {
    complain(error, world.size() > 1 ? world.rank() : -1);
    if (world.size() > 1) comm::abort_all_ranks(static_cast<int>(error.code()));
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    complain(core::Error(core::ExitCode::internal, error.what()), world.size() > 1 ? world.rank() : -1);
    if (world.size() > 1) comm::abort_all_ranks(static_cast<int>(core::ExitCode::internal));
    return static_cast<int>(core::ExitCode::internal);
  }
}

}  // namespace

int main(int argc, char** argv) {
  comm::MpiRuntime mpi(&argc, &argv);
  const auto world = comm::make_world_communicator();
  return run_or_report(argc, argv, *world);
}
