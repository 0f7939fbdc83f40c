#include "bert_hpc/io/conll_file.hpp"

namespace bert_hpc::io {

void ConllFile::add(std::string_view word, std::string_view gold, std::string_view predicted) {
  line_ = word.empty() ? "_" : word;
  constexpr std::string_view blanks = " \t\r\n\v\f";
  for (char& c : line_) {
    if (blanks.find(c) != std::string_view::npos) c = '_';
  }
  for (const std::string_view tag : {gold, predicted}) {
    if (!tag.empty()) (line_ += ' ') += tag;
  }
  line_ += '\n';
  file_.write(line_);
}

}  // namespace bert_hpc::io
