// Lines of CoNLL's columns, as programs that read such files split them alike.
#pragma once

#include <string_view>
#include <vector>

namespace bert_hpc::core {

/// Replaces `columns` by those of a line: between tabs if it has one, so that a column may hold blanks, else between
/// runs of blanks. The views are into the line.
void split_conll_line(std::string_view line, std::vector<std::string_view>& columns);

/// Whether a line may be a comment: "# sent_id = 3" of CoNLL-U, "# id 3" of MultiCoNER, "#<tab>http://…" of GermEval.
inline bool may_be_conll_comment(std::string_view line) {
  return line.starts_with('#');
}

/// Form of a file's lines of tokens, which distinguishes comments from the token "#".
class ConllShape {
 public:
  ConllShape() = default;
  /// Takes the form from a token's line, the first one that cannot be a comment.
  ConllShape(std::string_view line, const std::vector<std::string_view>& columns);

  /// Whether a line that begins a sentence, if it may be a comment, is one: it has not the columns of a token, or no
  /// tag where tokens have one.
  bool is_comment(std::string_view line, const std::vector<std::string_view>& columns) const;

 private:
  std::size_t columns_ = 0;  // 0: unknown, all lines may be comments
  bool tabs_ = false, tags_ = false;
};

}  // namespace bert_hpc::core
