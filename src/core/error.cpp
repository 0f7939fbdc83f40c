#include "bert_hpc/core/error.hpp"

#include <new>
#include <sstream>

namespace bert_hpc::core {

void ProblemList::throw_if_any(ExitCode code, const std::string& headline, std::source_location where) const {
  if (problems_.empty()) return;
  if (problems_.size() == 1) throw Error(code, headline + "\n  " + problems_.front(), where);
  std::ostringstream text;
  text << headline;
  int number = 0;
  for (const std::string& problem : problems_) text << "\n  " << ++number << ". " << problem;
  throw Error(code, text.str(), where);
}

Error as_error(const std::exception& thrown, const std::string& advice) {
  if (const auto* error = dynamic_cast<const Error*>(&thrown)) return *error;
  if (dynamic_cast<const std::bad_alloc*>(&thrown) == nullptr) return Error(ExitCode::internal, thrown.what());
  return Error(
      ExitCode::input,
      "out of memory: this rank got no more. Give it more (fewer ranks on its host, a limit of ulimit -v or of "
      "the job that is higher), or " +
          advice + '.');
}

std::string describe(std::string_view program, const Error& error, int rank, const std::string& host) {
  std::ostringstream text;
  text << program << ": error";
  if (rank >= 0) text << " (rank " << rank << " on " << host << ")";
  text << ": " << error.what() << '\n';
  if (error.code() == ExitCode::internal) {
    text << "  This is a defect of bert_hpc, found at " << error.where().file_name() << ':' << error.where().line()
         << "; please report it with the input file.\n";
  }
  return text.str();
}

}  // namespace bert_hpc::core
