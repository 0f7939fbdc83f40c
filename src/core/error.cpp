#include "bert_hpc/core/error.hpp"

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

std::string describe(const Error& error, int rank, const std::string& host) {
  std::ostringstream text;
  text << "bert_hpc: error";
  if (rank >= 0) text << " (rank " << rank << " on " << host << ")";
  text << ": " << error.what() << '\n';
  if (error.code() == ExitCode::internal) {
    text << "  This is a defect of bert_hpc, found at " << error.where().file_name() << ':' << error.where().line()
         << "; please report it with the input file.\n";
  }
  return text.str();
}

}  // namespace bert_hpc::core
