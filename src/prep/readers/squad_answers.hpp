// The positions of a question's answers in its context. Internal to the module.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "squad_article.hpp"

namespace bert_hpc::prep {

/// What is wrong with the position of the question's first answer; "" if it stands there, or there is none.
std::string misplaced(const SquadQuestion& question, const std::string& context);

/// What "is_impossible" says against the answers, and what counts; "" if they agree or it is not given.
std::string contradiction(const SquadQuestion& question);

/// Number of characters before the only occurrence of the text; none if it occurs several times or never.
std::optional<std::int64_t> only_position(std::string_view text, std::string_view context);

/// A JSON list as the file has it; "" if it is not known whether there is an answer.
std::string answers_text(const SquadQuestion& question);

}  // namespace bert_hpc::prep
