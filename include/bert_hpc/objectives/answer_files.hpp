// Answers to questions in the files that SQuAD's scorers and Transformers' scripts have: predictions.json,
// nbest_predictions.json and null_odds.json. Questions are streamed as io/text_file.hpp says.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/io/text_file.hpp"

namespace bert_hpc::objectives {

struct AnswerChoice {
  std::string text;
  float start_logit = 0, end_logit = 0;
  double probability = 0;  ///< among the question's choices
};

struct AnsweredQuestion {
  std::string id;
  std::string text;                  ///< "" for none
  std::vector<AnswerChoice> n_best;  ///< the best first
  /// Score of "no answer" less that of the best answer; only where questions may have none.
  std::optional<double> null_odds;
};

/// A JSON object, member by member, laid out as Python's json.dump(…, indent=4).
class JsonObjectFile {
 public:
  /// Throws Error(files), as do all functions below.
  explicit JsonObjectFile(const std::string& path) : file_(path) {}

  /// member: its lines, "    "name": value".
  void add(std::string_view member);
  void close();

 private:
  io::TextFile file_;
  bool has_members_ = false;
};

/// null_odds.json is written only where questions have odds. Without close() there are no files.
class AnswerFiles {
 public:
  /// Throws Error(files), as do all functions below.
  explicit AnswerFiles(const std::string& directory);

  void add(const AnsweredQuestion& question);
  void close();

 private:
  std::string directory_;
  JsonObjectFile answers_, choices_;
  std::optional<JsonObjectFile> odds_;  // from the first question with odds on
};

}  // namespace bert_hpc::objectives
