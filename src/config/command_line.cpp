#include "bert_hpc/config/command_line.hpp"

#include <charconv>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::config {

namespace {

std::string usage(const Program& program) {
  return "usage: " + program.name + " INPUT.toml [--set table.key=VALUE]... [--validate" +
         (program.makes_runs ? " [--ranks N] [--tokens N --mean-length L]] [--overwrite]\n" : "]\n") + "       " +
         program.name + (program.makes_runs ? " --measure-machine FILE.toml | --example" : " --example") +
         " | --version | --help";
}

class Parser {
 public:
  Parser(const std::vector<std::string>& arguments, const Program& program)
      : arguments_(arguments), program_(program) {}

  CommandLine parse() {
    bool ranks_given = false;
    while (next()) {
      if (name_ == "--help" || name_ == "-h") {
        line_.action = CommandLine::Action::help;
        return line_;
      }
      if (name_ == "--version") {
        line_.action = CommandLine::Action::version;
        return line_;
      }
      if (name_ == "--example") {
        line_.action = CommandLine::Action::example;
        return line_;
      }
      if (name_ == "--set") {
        if (take_value("table.key=VALUE")) line_.overrides.push_back(value_);
      } else if (name_ == "--validate") {
        if (take_nothing()) line_.validate = true;
      } else if (name_ == "--overwrite" && program_.makes_runs) {
        if (take_nothing()) line_.overwrite = true;
      } else if (name_ == "--ranks" && program_.makes_runs) {
        ranks_given = true;
        if (take_value("a number of ranks")) read_ranks();
      } else if (name_ == "--measure-machine" && program_.makes_runs) {
        if (take_value("the name of the file to write")) line_.machine_file = value_;
        line_.action = CommandLine::Action::measure;
      } else if (name_ == "--tokens" && program_.makes_runs) {
        if (take_value("a number of tokens")) read_tokens();
      } else if (name_ == "--mean-length" && program_.makes_runs) {
        if (take_value("a number of tokens")) read_mean_length();
      } else if (name_.size() > 1 && name_[0] == '-') {
        refuse_option();
      } else if (line_.input.empty() && !name_.empty()) {
        line_.input = name_;
      } else {
        problems_.add("a second input file, " + quoted(name_) + ", after " + quoted(line_.input) + ": give one.");
      }
    }
    if (line_.action == CommandLine::Action::measure) {
      check_measurement();
    } else if (line_.input.empty() && problems_.empty()) {
      problems_.add("the input file is missing.");
    }
    if (ranks_given && !line_.validate)
      problems_.add("--ranks belongs to --validate: the launcher sets the number of ranks of a run.");
    check_plan();
    if (!problems_.empty()) {
      problems_.throw_if_any(core::ExitCode::input, "the command line cannot be used (" + usage(program_) + "):");
    }
    return line_;
  }

 private:
  static std::string quoted(const std::string& text) { return '"' + core::printable(text, 100) + '"'; }

  /// Splits "--name=value"; a value in a separate argument is read later.
  bool next() {
    if (at_ == arguments_.size()) return false;
    name_ = arguments_[at_++];
    has_value_ = false;
    const auto equals = name_.find('=');
    if (name_.starts_with("--") && equals != std::string::npos) {
      value_ = name_.substr(equals + 1);
      name_.resize(equals);
      has_value_ = true;
    }
    return true;
  }

  bool take_value(const std::string& what) {
    if (has_value_) return true;
    if (at_ < arguments_.size() && !arguments_[at_].starts_with("--")) {
      value_ = arguments_[at_++];
      return true;
    }
    problems_.add(name_ + " needs " + what + " after it.");
    return false;
  }

  bool take_nothing() {
    if (has_value_) problems_.add(name_ + " takes no value, but has " + quoted(value_) + '.');
    return !has_value_;
  }

  void read_ranks() {
    const auto [end, error] = std::from_chars(value_.data(), value_.data() + value_.size(), line_.validate_ranks);
    const bool whole = error == std::errc() && end == value_.data() + value_.size();
    if (!whole || line_.validate_ranks < 1 || line_.validate_ranks > 1 << 24) {
      problems_.add("--ranks must be a whole number from 1 to 16777216, but is " + quoted(value_) + '.');
    }
  }

  /// A number from 1 to `most`; 0 after a problem. Exponents are allowed: 3e9.
  double read_number(double most, const char* what) {
    double number = 0;
    const auto [end, error] = std::from_chars(value_.data(), value_.data() + value_.size(), number);
    if (error == std::errc() && end == value_.data() + value_.size() && number >= 1 && number <= most) return number;
    problems_.add(name_ + " must be " + what + ", but is " + quoted(value_) + '.');
    return 0;
  }
  void read_tokens() {
    tokens_given_ = true;
    line_.planned_tokens = static_cast<std::int64_t>(read_number(1e15, "a number of tokens from 1 to 1e15"));
  }
  void read_mean_length() {
    mean_length_given_ = true;
    line_.planned_mean_length = read_number(1e6, "a mean length in tokens from 1 to 1e6");
  }

  void check_measurement() {
    if (line_.machine_file.empty() && problems_.empty()) problems_.add("--measure-machine needs a file name.");
    if (arguments_.size() > (has_value_ ? 1 : 2)) {
      problems_.add("--measure-machine FILE.toml stands alone: it reads no input and takes no other option.");
    }
  }

  void check_plan() {
    if (tokens_given_ != mean_length_given_) {
      problems_.add("--tokens and --mean-length belong together: a plan without shards needs both.");
    }
    if ((tokens_given_ || mean_length_given_) && !line_.validate) {
      problems_.add("--tokens and --mean-length belong to --validate: a run reads shards.");
    }
  }

  void refuse_option() {
    std::vector<std::string> options = {"--set", "--validate", "--example", "--version", "--help"};
    if (program_.makes_runs)
      options.insert(options.end(), {"--ranks", "--tokens", "--mean-length", "--measure-machine", "--overwrite"});
    const std::string nearest = core::nearest_name(name_, options);
    problems_.add("unknown option " + quoted(name_) +
                  (nearest.empty() ? "; the options are " + core::listed(options, "and", false) +
                                         ". A key of the input is set with --set table.key=VALUE."
                                   : "; did you mean " + nearest + '?'));
  }

  const std::vector<std::string>& arguments_;
  const Program& program_;
  std::size_t at_ = 0;
  std::string name_, value_;
  bool has_value_ = false, tokens_given_ = false, mean_length_given_ = false;
  CommandLine line_;
  core::ProblemList problems_;
};

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments, const Program& program) {
  return Parser(arguments, program).parse();
}

std::string help_text(const Program& program) {
  std::string text = usage(program) + "\n\n" + program.purpose + "\n\n";
  text +=
      "  INPUT.toml             what to do, as TOML; --example prints one\n"
      "  --set table.key=VALUE  override a key of the input; VALUE is TOML, may be repeated. Strings need their "
      "quotes:\n";
  text += program.makes_runs ? "                         --set batch.global=64 --set 'run.directory=\"other\"'\n"
                             : "                         --set split.seed=7 --set 'output.directory=\"shards\"'\n";
  text +=
      program.makes_runs
          ? "  --validate             check everything that can be checked without computing, print layout, memory,\n"
            "                         disk use and time, then exit\n"
            "  --ranks N              with --validate: plan for N ranks\n"
            "  --tokens N --mean-length L\n"
            "                         with --validate: plan without shards, for N tokens in sequences of mean length "
            "L\n"
            "  --overwrite            replace the results in run.directory\n"
            "  --measure-machine FILE.toml\n"
            "                         measure this machine for a minute and write the file for [run] machine; under "
            "the\n"
            "                         launcher, with as many ranks per node as runs will have\n"
          : "  --validate             check everything that can be checked without preparing, print the resolved\n"
            "                         input, then exit\n";
  text +=
      "  --example              print an input in which every key is explained\n"
      "  --version              print version, source revision, build kind and libraries\n"
      "  --help                 print this\n\n"
      "Runs alone, under mpirun, or under srun: mpirun -n 2 " +
      program.name + " input.toml\n";
  if (program.makes_runs) {
    text +=
        "Without Slurm, jobs/local.sh INPUT.toml starts the ranks; on Ctrl-C it leaves them the time for a "
        "checkpoint,\n"
        "which mpirun alone does not: it kills them after 2 s.\n";
  }
  if (!program.share.empty()) {
    text += "Manual:            " + program.share + "/README.md\n" + "Inputs to copy:    " + program.share +
            "/input\n" + "Batch job scripts: " + program.share + "/jobs\n";
  }
  text +=
      "Exit status: 0 done, 1 internal error, 2 input or command line, 3 data, 4 files, 5 numerical, 6 communication";
  text += program.makes_runs ? ",\n75 stopped on request with a checkpoint: the same command continues.\n" : ".\n";
  return text;
}

}  // namespace bert_hpc::config
