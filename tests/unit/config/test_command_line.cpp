#include "bert_hpc/config/command_line.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>
#include <iterator>

#include "bert_hpc/config/example_input.hpp"
#include "bert_hpc/core/error.hpp"
#include "support/tests_directory.hpp"

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
  for (const char* option : {"--set", "--validate", "--ranks", "--tokens", "--mean-length", "--measure-machine",
                             "--overwrite", "--example", "--version", "--help", "75 stopped"}) {
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
    const std::string path = bert_hpc::test::tests_directory().string() + "/../input/example_" + name + ".toml";
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    INFO(path);
    REQUIRE(!text.empty());
    CHECK(example_input(name) == text);
  }
}

TEST_CASE("a plan without shards is asked for by two numbers, with --validate") {
  const CommandLine line =
      parse_command_line({"in.toml", "--validate", "--tokens", "3.3e9", "--mean-length=128.5"}, trainer);
  CHECK(line.planned_tokens == 3300000000);
  CHECK(line.planned_mean_length == 128.5);
  CHECK(parse_command_line({"in.toml", "--validate"}, trainer).planned_tokens == 0);
  CHECK_THAT(problems({"in.toml", "--validate", "--tokens", "5"}), ContainsSubstring("belong together"));
  CHECK_THAT(problems({"in.toml", "--tokens", "5", "--mean-length", "5"}), ContainsSubstring("belong to --validate"));
  for (const char* bad : {"0", "-3", "x", "", "1e16", "5x", "nan", "inf"}) {
    CHECK_THAT(problems({"in.toml", "--validate", std::string("--tokens=") + bad, "--mean-length", "9"}),
               ContainsSubstring("--tokens must be a number of tokens from 1 to 1e15"));
    CHECK_THAT(problems({"in.toml", "--validate", "--tokens", "9", std::string("--mean-length=") + bad}),
               ContainsSubstring("--mean-length must be a mean length"));
  }
  CHECK_THAT(problems({"in.toml", "--validate", "--tokens", "5", "--mean-length", "5"}, prep),
             ContainsSubstring("unknown option"));
}

TEST_CASE("a measurement of the machine takes one file name and no other argument") {
  const CommandLine line = parse_command_line({"--measure-machine", "machine.toml"}, trainer);
  CHECK(line.action == Action::measure);
  CHECK(line.machine_file == "machine.toml");
  CHECK(parse_command_line({"--measure-machine=m"}, trainer).machine_file == "m");
  CHECK_THAT(problems({"--measure-machine"}), ContainsSubstring("needs the name of the file to write"));
  CHECK_THAT(problems({"--measure-machine="}), ContainsSubstring("needs a file name"));
  CHECK_THAT(problems({"in.toml", "--measure-machine", "m"}), ContainsSubstring("stands alone"));
  CHECK_THAT(problems({"--measure-machine", "m", "--validate"}), ContainsSubstring("stands alone"));
  CHECK_THAT(problems({"--measure-machine", "m"}, prep), ContainsSubstring("unknown option"));
}
