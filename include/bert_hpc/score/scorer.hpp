// Scorers: each computes the numbers of one benchmark's official script from gold answers and predictions in files.
// bert_hpc_score prints them as JSON. One file per scorer in src/score; src/score/registry.cpp lists them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bert_hpc::score {

/// One number of a result, with the official script's name for it.
struct Number {
  std::string name;
  double value;
  bool is_count = false;  ///< printed as an integer
};

struct Result {
  std::vector<Number> numbers{};     ///< in the order of the official script
  std::vector<std::string> notes{};  ///< for standard error, a line each
};

/// Paths as on the command line.
struct Files {
  std::string gold;
  std::string predictions;
  std::string no_answer_probabilities{};  ///< empty: none given
};

struct Scorer {
  std::string_view name;          ///< as on the command line
  std::string_view description;   ///< one line of --help: the files, and whose numbers these are
  bool takes_probabilities;       ///< a third file may follow
  Result (*score)(const Files&);  ///< throws Error(data) for content, Error(files) for unreadable files
};

/// All scorers, in the order of --help.
const std::vector<Scorer>& scorers();

/// Throws Error(input) that lists the names if there is no scorer of this name.
const Scorer& scorer(std::string_view name);

/// {"exact": 50.0, …} with a line per number. Floating-point numbers have the digits that give the same double when
/// read.
std::string json_text(const Result& result);

}  // namespace bert_hpc::score
