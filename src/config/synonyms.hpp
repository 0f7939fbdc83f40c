// Names that users bring from other trainers, above all Hugging Face Transformers (TrainingArguments and friends), and
// what they are called here. One table of keys and one of values; pure look-ups, used for messages only.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace bert_hpc::config {

/// What an unknown key stands for. Both empty: the name is no synonym.
struct KeySuggestion {
  std::string key;     ///< "table.key" of this input, "" if there is none
  std::string text;    ///< for the error line: `use [batch] global, the number of sequences per update`
  bool plain = false;  ///< the key alone, without a remark
};

/// Looks up an unknown key, in any case and with '-' or '_'. `has(path)`: does this program's input have that
/// "table.key" or table? It decides which program's meaning applies and hides keys that this version lacks.
KeySuggestion suggested_key(std::string_view name, const std::function<bool(const std::string&)>& has);

/// The value that an unknown one stands for ("bfloat16" → "bf16"), whichever key it was given for; "" if there is none.
/// `has(value)`: is this value one of the key's choices?
std::string suggested_value(std::string_view value, const std::function<bool(const std::string&)>& has);

}  // namespace bert_hpc::config
