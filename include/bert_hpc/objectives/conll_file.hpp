// RUN/predictions.conll: a word a line, "word gold predicted" between blanks (without labels "word predicted"), a blank
// line after each sentence, as conlleval and seqeval's readers take it; with probabilities "word probability gold
// predicted", as these read the first column and the last ones. Blanks within a word are written as "_", and so
// is a word without characters. Lines are streamed as io/text_file.hpp says.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bert_hpc/io/text_file.hpp"

namespace bert_hpc::objectives {

class ConllFile {
 public:
  /// Throws Error(files), as do all functions below.
  explicit ConllFile(const std::string& path) : file_(path) {}

  /// gold: "" if it is not known. probability: of the predicted tag, with six digits; without it there is no such
  /// column.
  void add(std::string_view word, std::optional<float> probability, std::string_view gold, std::string_view predicted);
  void end_sentence() { file_.write("\n"); }
  void close() { file_.close(); }

 private:
  io::TextFile file_;
  std::string line_;
};

}  // namespace bert_hpc::objectives
