// The input of a recurrent model: the rows of a table of embeddings by the tokens' ids, without positions, norm and
// dropout. A tensor group cannot share it out.
#pragma once

#include <memory>
#include <string>

#include "bert_hpc/layers/input.hpp"

namespace bert_hpc::layers {

struct TokenTableSettings {
  std::string table{};  ///< name of the table's parameter (vocabulary, columns)
  std::int64_t vocabulary = 0, columns = 0;
  std::int64_t padding_row = -1;  ///< it begins as zeros; -1: none
};

std::shared_ptr<const InputKind> token_table(TokenTableSettings settings);

}  // namespace bert_hpc::layers
