// A question of SQuAD as a row with columns. Internal to the module.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/prep/readers/row_reader.hpp"
#include "squad_article.hpp"

namespace bert_hpc::prep {

class SquadColumns {
 public:
  /// indices: of the columns asked for, among those of squad_format().
  explicit SquadColumns(std::vector<std::size_t> indices) : indices_(std::move(indices)) {}

  /// Sets the row's values, problem and note: an answer that is not at its position is taken from the only other one.
  /// The values last until the next call, and no longer than the arguments.
  void fill(SquadQuestion& question, std::string_view title, const std::string& context, Row& row);
  /// The row cannot be read.
  void fail(std::string problem, Row& row) const;

 private:
  std::vector<std::size_t> indices_;
  std::string start_, answers_;
};

}  // namespace bert_hpc::prep
