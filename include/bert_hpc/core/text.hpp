// Text helpers for output to users: numbers with separators, sizes, durations, suggestions for mistyped names, and
// escaping of untrusted text. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bert_hpc::core {

/// 12345 → "12,345".
std::string with_commas(std::int64_t value);

/// "17 bytes", "1.5 KiB", "12.0 GiB".
std::string format_bytes(std::int64_t bytes);

/// "0.42 s", "7.3 s", "2 min 05 s", "3 h 07 min", "2 d 04 h", "90 days", "3.2 years". Negative or not finite: "?".
std::string format_duration(double seconds);

/// The shortest of fixed and scientific form with `digits` significant digits: "0.6931", "1.2e-05", "nan".
std::string format_number(double value, int digits = 4);

/// A rate or count with a metric prefix: 1234567 → "1.23 M", 999 → "999". `digits` significant digits.
std::string format_metric(double value, int digits = 3);

/// 1 → "1 rank", 3 → "3 ranks"; the plural is singular + "s" unless given.
std::string counted(std::int64_t count, std::string_view singular, std::string_view plural = {});

/// Number of insertions, deletions, replacements and swaps of neighbours (optimal string alignment) that turn a into b,
/// in bytes.
int edit_distance(std::string_view a, std::string_view b);

/// Lower case, with '_' for '-' and blanks, so that spelling variants compare equal.
std::string folded(std::string_view name);

/// The candidate that `name` probably means, or "" if none is close: small edit distance ignoring case and '-' against
/// '_', the first letters or last words of exactly one candidate, or the initials of its words ("lr" for
/// "learning_rate").
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

/// "a, b or c", each in double quotes if `quote`.
std::string listed(const std::vector<std::string>& items, std::string_view last_word, bool quote = true);

/// Splits lines like Python's text mode: LF, CRLF or CR ends a line.
std::vector<std::string> split_lines(std::string_view text);

/// ASCII's blanks and line ends.
inline constexpr std::string_view ascii_blanks = " \t\r\n\v\f";
/// Without those at both ends.
std::string_view trimmed(std::string_view text);

/// Ascending numbers as ranges: {0, 2, 3, 4, 7} → "0, 2-4, 7"; after `most` ranges the rest is "…".
std::string ranges_text(std::span<const int> numbers, std::size_t most = 8);

/// "[3, 1]", as TOML writes it.
std::string list_text(std::span<const std::int64_t> numbers);

/// Untrusted bytes in printable form: tabs and line ends become \t and \n, other control characters and invalid UTF-8
/// \xNN; cut after `limit` bytes with "…".
std::string printable(std::string_view text, std::size_t limit = 200);

}  // namespace bert_hpc::core
