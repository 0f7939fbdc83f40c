// bert_hpc_score: prints a benchmark's official numbers for a file of predictions. One process, no MPI.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/installation.hpp"
#include "bert_hpc/core/standard_streams.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/version.hpp"
#include "bert_hpc/score/scorer.hpp"

namespace {

using namespace bert_hpc;

constexpr const char* program_name = "bert_hpc_score";

std::string help_text() {
  std::string text =
      "Usage: bert_hpc_score SCORER GOLD PREDICTIONS [NO_ANSWER_PROBABILITIES]\n"
      "       bert_hpc_score --help | --version\n"
      "Prints the official scorer's numbers for PREDICTIONS as JSON.\n\n"
      "SCORER is one of\n";
  for (const score::Scorer& one : score::scorers()) {
    text += "  " + std::string(one.name) + "  " + std::string(one.description) + '\n';
  }
  const std::string manuals = core::share_folder();
  if (!manuals.empty()) text += "\nManual: " + manuals + "/input/README.md\n";
  return text + "\nExit status: 0 success, 2 command line, 3 content of a file, 4 a file cannot be read.\n";
}

[[noreturn]] void refuse(const std::string& problem) {
  throw core::Error(core::ExitCode::input, problem + "; bert_hpc_score --help shows the command line.");
}

/// Output to a full disk is an error too.
void print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    throw core::Error(core::ExitCode::files, "cannot write to standard output; is its disk full?");
  }
}

void run(const std::vector<std::string>& words) {
  if (words.size() == 1 && (words[0] == "--help" || words[0] == "-h")) return print(help_text());
  if (words.size() == 1 && words[0] == "--version") return print(core::version_text(program_name, {}));
  for (const std::string& word : words) {
    if (word.starts_with("--")) refuse("there is no option '" + core::printable(word) + "' beside a scorer");
  }
  if (words.empty()) refuse("the scorer is missing");
  const score::Scorer& scorer = score::scorer(words[0]);
  const std::size_t most = scorer.takes_probabilities ? 4 : 3;
  if (words.size() < 3) refuse("the files GOLD and PREDICTIONS are missing");
  if (words.size() > most) refuse("'" + core::printable(words[most]) + "' is one file too many");
  score::Files files{words[1], words[2]};
  if (words.size() == 4) files.no_answer_probabilities = words[3];
  const score::Result result = scorer.score(files);
  for (const std::string& note : result.notes) std::fprintf(stderr, "%s\n", core::printable(note).c_str());
  print(score::json_text(result));
}

}  // namespace

int main(int argc, char** argv) {
  core::keep_standard_streams();
  try {
    run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& thrown) {
    const core::Error error = core::as_error(thrown, "give smaller files");
    std::fputs(core::describe(program_name, error, -1, "").c_str(), stderr);
    return static_cast<int>(error.code());
  }
}
