// Key that all spellings of one name share. Pure.
#pragma once

#include <string>
#include <string_view>

namespace bert_hpc::tokenize {

/// The same text for names that differ in case, in composed or decomposed characters (NFC, NFD), in invisible
/// characters (a zero-width space, a byte order mark) or in blanks at the ends or repeated inside. Accents and
/// punctuation stay. Malformed UTF-8 counts as U+FFFD.
std::string spelling_key(std::string_view name);

/// `name` with characters that cannot be seen or distinguished as code points: "bar\u{200B}", "cafe\u{301}". Blanks of
/// ASCII inside stay.
std::string visible_spelling(std::string_view name);

}  // namespace bert_hpc::tokenize
