// One article of a SQuAD file (Rajpurkar et al. 2016, 2018) as plain data. Internal to the module.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bert_hpc::prep {

struct SquadAnswer {
  std::string text;
  std::int64_t start = 0;  ///< characters (code points) of the context before it, as the file says
};

struct SquadQuestion {
  std::string id, text;
  bool impossible = false;              ///< files of version 1.1 do not say: false
  std::optional<bool> said_impossible;  ///< "is_impossible", where it is given
  bool lists_answers = false;           ///< whether it has "answers", possibly none
  std::vector<SquadAnswer> answers;     ///< in the file's order

  bool answered() const { return !answers.empty(); }
};

struct SquadParagraph {
  std::string context;
  std::vector<SquadQuestion> questions;
};

struct SquadArticle {
  std::string title;  ///< empty if it has none
  std::vector<SquadParagraph> paragraphs;
};

/// Location of an article, for messages.
struct ArticleLocation {
  std::string file;
  std::int64_t number = 0;  ///< in the file, from 1
  std::int64_t line = 0;    ///< on which it begins, from 1
  std::int64_t offset = 0;  ///< bytes of the file before it
};

/// Reads the JSON of one article, or of one paragraph, which becomes an article without a title; members that no column
/// is made of may hold anything. Throws Error(data) with the location if it is not JSON, lacks a member, has one twice
/// or one of another type, or is nested too deep.
SquadArticle read_squad_article(std::string_view json, const ArticleLocation& location, bool is_paragraph);

/// Throws what is said of a file, with what a SQuAD file is.
[[noreturn]] void refuse_squad(const std::string& what);

}  // namespace bert_hpc::prep
