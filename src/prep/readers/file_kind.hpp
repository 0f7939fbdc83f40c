// Files that are no text, by their first bytes. Internal to the module.
#pragma once

#include <string>
#include <string_view>

namespace bert_hpc::prep {

/// Bytes that binary_format() should get, where the file has as many.
inline constexpr std::size_t kind_bytes = 4096;

/// What a file that begins with `start` is instead of text, and what to do: ": is …", to follow the file's name; "" for
/// text.
std::string binary_format(std::string_view start);

}  // namespace bert_hpc::prep
