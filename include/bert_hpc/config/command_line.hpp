// The command line that all programs share: INPUT.toml, --set, --validate and a few more. Pure: takes arguments,
// returns a plain struct or throws one error with all problems.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bert_hpc::config {

/// Properties of the program.
struct Program {
  std::string name;         ///< "bert_hpc"
  std::string purpose;      ///< one sentence for --help
  bool makes_runs = false;  ///< accepts --ranks, --tokens, --mean-length, --overwrite and --measure-machine
  std::string share = {};   ///< the folder with inputs, job scripts and manuals, for --help; "": unknown
};

struct CommandLine {
  enum class Action { run, help, version, example, measure };
  Action action = Action::run;
  std::string input;                   ///< path of the input file
  std::vector<std::string> overrides;  ///< of --set, in order: "table.key=VALUE"
  bool validate = false;               ///< check, then exit
  int validate_ranks = 0;              ///< of --ranks; 0: not given
  bool overwrite = false;
  std::int64_t planned_tokens = 0;  ///< of --tokens; 0: not given
  double planned_mean_length = 0;   ///< of --mean-length; 0: not given
  std::string machine_file;         ///< of --measure-machine; then action is measure
};

/// `arguments` without the program's own name. The first of --help, --version and --example overrides everything else.
/// Throws Error(input) with every problem, the nearest option for unknown ones, and a usage line.
CommandLine parse_command_line(const std::vector<std::string>& arguments, const Program& program);

/// The text for --help.
std::string help_text(const Program& program);

}  // namespace bert_hpc::config
