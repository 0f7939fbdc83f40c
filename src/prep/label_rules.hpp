// Internal to the module.
#pragma once

#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::prep {

/// What the input may ask of labels of a kind.
struct LabelRules {
  bool can_stratify = false;         ///< [split] stratify has a meaning
  bool stratifies_usually = false;   ///< its default without [split] group
  bool may_be_empty = false;         ///< a row with an empty label column is complete
  const char* usual_separator = "";  ///< default of [source] label_separator
  bool separates_names = false;      ///< between the names of a label; else a label ends before the separator
};
LabelRules label_rules(tasks::Labels kind);

}  // namespace bert_hpc::prep
