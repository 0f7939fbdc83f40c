// Which of one list of label names is which of another: a model's and those of shards, which may have another order or
// another spelling. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace bert_hpc::data {

struct NameMatch {
  std::vector<std::int64_t> indices;  ///< (names): of the same name in the other list, all different
  bool exact = true;                  ///< false: some are spelled differently there
  bool in_order() const;              ///< Whether index i is i.
};

/// The indices of `names` in `others`, which may have more. Names are the same if they are equal, else if only one on
/// each side is spelled so (tokenize::spelling_key()), "LABEL_7" and "7.0" being the same as "7". Nothing if a name has
/// no counterpart, or more than one.
std::optional<NameMatch> match_names(const std::vector<std::string>& names, const std::vector<std::string>& others);

/// The key of a name's spellings; the number of a name such as "LABEL_7" or "7.0".
std::string label_key(const std::string& name);

}  // namespace bert_hpc::data
