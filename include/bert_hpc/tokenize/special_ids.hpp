// The special tokens' roles. What a token of a role is called in the text ("[CLS]", "<s>") is the tokenizer's business.
#pragma once

#include <array>
#include <cstdint>
#include <tuple>

namespace bert_hpc::tokenize {

/// Ids of the special tokens by role; -1 if the tokenizer has none.
struct SpecialIds {
  std::int32_t cls = -1, sep = -1, mask = -1, pad = -1, unk = -1;
  bool operator==(const SpecialIds&) const = default;

  /// For core/message.hpp.
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.cls, self.sep, self.mask, self.pad, self.unk);
  }
};

struct SpecialRole {
  const char* name;  ///< Hugging Face calls the token "NAME_token"; shards call its id "NAME_id"
  std::int32_t SpecialIds::*id;
};

/// All of them, in the order in which a trained vocabulary begins with them.
inline constexpr std::array<SpecialRole, 5> special_roles{{
    {"pad", &SpecialIds::pad},
    {"unk", &SpecialIds::unk},
    {"cls", &SpecialIds::cls},
    {"sep", &SpecialIds::sep},
    {"mask", &SpecialIds::mask},
}};

}  // namespace bert_hpc::tokenize
