// RUN/predictions.conll: a word a line, "word gold predicted" between blanks (without labels "word predicted"), a blank
// line after each sentence, as conlleval and seqeval's readers take it. Blanks within a word are written as "_", and so
// is a word without characters. Lines go to a staging file that close() renames.
#pragma once

#include <fstream>
#include <string>
#include <string_view>

namespace bert_hpc::io {

class ConllFile {
 public:
  /// Throws Error(files), as do all functions below.
  explicit ConllFile(const std::string& path);
  ~ConllFile();  ///< without close(), the unfinished file is removed
  ConllFile(const ConllFile&) = delete;
  ConllFile& operator=(const ConllFile&) = delete;

  /// gold: "" where it is not known.
  void add(std::string_view word, std::string_view gold, std::string_view predicted);
  void end_sentence();
  void close();

 private:
  void flush();

  std::string path_, text_;
  std::ofstream file_;
  bool open_ = true;
};

}  // namespace bert_hpc::io
