// Text that was made of another one, with what each of its bytes was made of.
#pragma once

#include <string>
#include <vector>

#include "bert_hpc/tokenize/tokenizer.hpp"

namespace bert_hpc::tokenize {

/// Text in UTF-8 with the characters of another text that each byte stands for.
struct OriginText {
  std::string bytes{};
  std::vector<TokenSpan> origins{};  ///< (bytes); empty if they are not asked for

  void clear() {
    bytes.clear();
    origins.clear();
  }
};

}  // namespace bert_hpc::tokenize
