// Advice for tables that are probably meant in another way. Internal to the module.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/prep/readers/row_reader.hpp"

namespace bert_hpc::prep {

/// Advice if the header names no columns, but a delimiter, or its names are in quotes; else empty.
std::string delimiter_advice(const std::vector<std::string>& names, const RowFormat& format);

/// Advice if the first row seems to be data; else empty. Names are short words; a number or a sentence is what a row of
/// data has.
std::string header_advice(const std::vector<std::string>& names);

/// Whether a text begins and ends with a quote, has more of them, and those in pairs.
bool is_enclosed(std::string_view text);

inline constexpr const char* quotes_advice = "; if quotes enclose columns in this file, set [source] quotes = true";

}  // namespace bert_hpc::prep
