// Names from other trainers, mainly Hugging Face Transformers (TrainingArguments etc.), and their equivalents here. One
// table of keys and one of values; pure look-ups, used for messages only.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace bert_hpc::config {

/// The equivalent of an unknown key. Both texts empty: the name is no synonym.
struct KeySuggestion {
  std::string key;     ///< "table.key" of this input, "" if there is none
  std::string text;    ///< for the error line: `use [batch] global, the number of sequences per update`
  bool plain = false;  ///< only the key, without a remark
};

/// Looks up an unknown key, in any case and with '-' or '_'. `has(path)`: true if this program's input has that
/// "table.key" or table. It selects the meaning for this program and hides keys that this version lacks.
KeySuggestion suggested_key(std::string_view name, const std::function<bool(const std::string&)>& has);

/// The equivalent of an unknown value ("bfloat16" → "bf16"), for any key; "" if there is none. `has(value)`: true if
/// the value is one of the key's choices.
std::string suggested_value(std::string_view value, const std::function<bool(const std::string&)>& has);

}  // namespace bert_hpc::config
