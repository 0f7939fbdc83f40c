#include "bert_hpc/config/command_line.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>
#include <iterator>

#include "bert_hpc/config/example_input.hpp"
#include "bert_hpc/core/error.hpp"

using namespace bert_hpc::config;
using bert_hpc::core::Error;
using bert_hpc::core::ExitCode;
using Catch::Matchers::ContainsSubstring;
using Action = CommandLine::Action;

namespace {

const Program trainer = {"bert_hpc", "Trains.", true};
const Program prep = {"bert_hpc_prep", "Prepares.", false};

std::string problems(const std::vector<std::string>& arguments, const Program& program = trainer) {
  try {
    parse_command_line(arguments, program);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::input);
    return error.what();
  }
  return "no problem";
}

}  // namespace

TEST_CASE("a command line in any order is understood") {
  const CommandLine line = parse_command_line(
      {"--set", "a.b=1", "in.toml", "--set=c.d=\"x=y\"", "--validate", "--ranks", "8", "--overwrite"}, trainer);
  CHECK(line.action == Action::run);
  CHECK(line.input == "in.toml");
  CHECK(line.overrides == std::vector<std::string>{"a.b=1", "c.d=\"x=y\""});
  CHECK(line.validate);
  CHECK(line.validate_ranks == 8);
  CHECK(line.overwrite);
  CHECK(parse_command_line({"--help"}, trainer).action == Action::help);
  CHECK(parse_command_line({"in.toml", "-h"}, prep).action == Action::help);
  CHECK(parse_command_line({"--version"}, prep).action == Action::version);
  CHECK(parse_command_line({"--example"}, trainer).action == Action::example);
  CHECK(parse_command_line({"in.toml", "--example"}, prep).action == Action::example);
  // Values of --set may begin with one dash.
  CHECK(parse_command_line({"i", "--set", "-x"}, prep).overrides == std::vector<std::string>{"-x"});
}

TEST_CASE("every mistake of a command line is reported, with the nearest option") {
  const std::string text = problems({"--overwite", "a", "b", "--ranks=0", "--validate=1", "--set"});
  CHECK_THAT(text, ContainsSubstring("unknown option \"--overwite\"; did you mean --overwrite?"));
  CHECK_THAT(text, ContainsSubstring("a second input file, \"b\""));
  CHECK_THAT(text, ContainsSubstring("--ranks must be a whole number"));
  CHECK_THAT(text, ContainsSubstring("--validate takes no value"));
  CHECK_THAT(text, ContainsSubstring("--set needs table.key=VALUE"));
  CHECK_THAT(text, ContainsSubstring("usage: bert_hpc INPUT.toml"));
  CHECK_THAT(problems({}), ContainsSubstring("the input file is missing"));
  CHECK_THAT(problems({"a", "--ranks", "2"}), ContainsSubstring("--ranks belongs to --validate"));
  CHECK_THAT(problems({"a", "--validate", "--ranks", "2x"}), ContainsSubstring("\"2x\""));
  CHECK_THAT(problems({"a", "--overwrite"}, prep), ContainsSubstring("unknown option"));
  CHECK_THAT(problems({"a", "--\x1b[2J"}), ContainsSubstring("\\x1B"));
  CHECK_THAT(problems({"a", "--learning_rate", "1e-5"}),
             ContainsSubstring("A key of the input is set with --set table.key=VALUE."));
}

TEST_CASE("help names every option") {
  for (const char* option :
       {"--set", "--validate", "--ranks", "--overwrite", "--example", "--version", "--help", "75 stopped"}) {
    CHECK_THAT(help_text(trainer), ContainsSubstring(option));
  }
  CHECK_THAT(help_text(prep), !ContainsSubstring("--overwrite"));
  // Only prep prints it.
  CHECK_THAT(help_text(prep), ContainsSubstring("print the resolved"));
  CHECK_THAT(help_text(trainer), !ContainsSubstring("resolved"));
}

TEST_CASE("help names the folder of manuals where it is known") {
  Program installed = trainer;
  installed.share = "/opt/b/share/bert_hpc";
  CHECK_THAT(help_text(installed),
             ContainsSubstring("/opt/b/share/bert_hpc/README.md") && ContainsSubstring("/opt/b/share/bert_hpc/input"));
  CHECK_THAT(help_text(trainer), !ContainsSubstring("README.md"));
}

TEST_CASE("the example inputs in the program are the files") {
  for (const char* name : {"bert_hpc", "bert_hpc_prep"}) {
    const std::string path = std::string(BERT_HPC_TESTS_DIRECTORY) + "/../input/example_" + name + ".toml";
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    INFO(path);
    REQUIRE(!text.empty());
    CHECK(example_input(name) == text);
  }
}
