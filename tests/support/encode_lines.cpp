// Ids and spans of each line of a text file by the tokenizer in a folder, for golden/tokenizer/compare_byte_bpe.py:
//
//     encode_lines FOLDER TEXT > OUTPUT
//
// Writes for each line 32-bit integers: the number of tokens, their ids without the sequence's special tokens, and the
// begin and end of each token in characters of the line.
#include <cstdint>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/tokenize/tokenizer_folder.hpp"

using namespace bert_hpc;

namespace {

void encode_lines(const std::string& path, const std::string& text) {
  const tokenize::TokenizerFolder folder = tokenize::read_tokenizer_folder(path);
  core::require(folder.problems.empty() && folder.has_vocabulary(), "the folder has a tokenizer that is read");
  const auto tokenizer = folder.kind->make(folder.parts, path);
  const auto encoder = tokenizer->encoder();
  std::ifstream file(text, std::ios::binary);
  std::string line;
  std::vector<std::int32_t> ids, numbers;
  std::vector<tokenize::TokenSpan> spans;
  while (std::getline(file, line)) {
    ids.clear();
    spans.clear();
    encoder->encode_with_spans(line, ids, spans);
    numbers.assign(1, static_cast<std::int32_t>(ids.size()));
    numbers.insert(numbers.end(), ids.begin(), ids.end());
    for (const tokenize::TokenSpan& span : spans) numbers.insert(numbers.end(), {span.begin, span.end});
    std::cout.write(reinterpret_cast<const char*>(numbers.data()),
                    static_cast<std::streamsize>(numbers.size() * sizeof(std::int32_t)));
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::cerr << "usage: encode_lines FOLDER TEXT > OUTPUT\n";
    return 2;
  }
  try {
    encode_lines(arguments[1], arguments[2]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return std::cout.flush() ? 0 : 1;
}
