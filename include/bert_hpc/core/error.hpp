// The only error type of bert_hpc and the exit codes that it carries to the launcher.
//
// An error is one block of text for the user: what is wrong, where (file, line, column or row), and how to fix it. A
// `ProblemList` collects all problems of one input and reports them together, so that a user can fix a file in one
// pass.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bert_hpc::core {

/// Exit status of every program here; the launcher's exit status is the same (see the README).
enum class ExitCode : int {
  success = 0,
  internal = 1,       ///< a defect of bert_hpc itself
  input = 2,          ///< input file or command line
  data = 3,           ///< shards, labels, text
  files = 4,          ///< files that cannot be read or written, checkpoints
  numerical = 5,      ///< NaN or infinity
  communication = 6,  ///< MPI, NCCL
  stopped = 75,       ///< stopped on request after writing a checkpoint: the same command continues
};

/// `message` is complete sentences for the user. `where` is the location in our source, shown for internal errors only.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message, std::source_location where = std::source_location::current())
      : std::runtime_error(message), code_(code), where_(where) {}

  ExitCode code() const { return code_; }
  const std::source_location& where() const { return where_; }

 private:
  ExitCode code_;
  std::source_location where_;
};

/// Throws an internal error unless `holds`. Only for conditions that a defect of ours breaks, never for input.
inline void require(bool holds, const char* what, std::source_location where = std::source_location::current()) {
  if (!holds) throw Error(ExitCode::internal, what, where);
}

/// Collects problems so that all are reported at once.
class ProblemList {
 public:
  void add(std::string problem) { problems_.push_back(std::move(problem)); }
  bool empty() const { return problems_.empty(); }
  const std::vector<std::string>& all() const { return problems_; }

  /// Throws one `Error` whose message is `headline` and a numbered list of the problems; returns if there are none.
  void throw_if_any(ExitCode code, const std::string& headline,
                    std::source_location where = std::source_location::current()) const;

 private:
  std::vector<std::string> problems_;
};

/// Converts an exception into an error for the user. Memory exhaustion becomes an input error whose text says how to
/// need less memory (`advice`, the end of a sentence); any unknown exception becomes an internal error.
Error as_error(const std::exception& thrown, const std::string& advice);

/// The text printed on standard error: "PROGRAM: error: …", with rank and host if `rank` ≥ 0.
std::string describe(std::string_view program, const Error& error, int rank, const std::string& host);

}  // namespace bert_hpc::core
