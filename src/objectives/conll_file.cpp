#include "bert_hpc/objectives/conll_file.hpp"

#include <charconv>

#include "bert_hpc/core/text.hpp"

namespace bert_hpc::objectives {

void ConllFile::add(std::string_view word, std::optional<float> probability, std::string_view gold,
                    std::string_view predicted) {
  line_ = word.empty() ? "_" : word;
  for (char& c : line_) {
    if (core::ascii_blanks.find(c) != std::string_view::npos) c = '_';
  }
  if (probability) {
    constexpr int digits = 6;
    char text[32];
    const auto written = std::to_chars(text, text + sizeof text, *probability, std::chars_format::fixed, digits);
    (line_ += ' ').append(text, written.ptr);
  }
  for (const std::string_view tag : {gold, predicted}) {
    if (!tag.empty()) (line_ += ' ') += tag;
  }
  line_ += '\n';
  file_.write(line_);
}

}  // namespace bert_hpc::objectives
