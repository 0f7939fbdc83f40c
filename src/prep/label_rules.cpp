#include "label_rules.hpp"

namespace bert_hpc::prep {

using tasks::Labels;

LabelRules label_rules(Labels kind) {
  switch (kind) {
    case Labels::classes:
      return {.can_stratify = true, .stratifies_usually = true};
    case Labels::values:
      return {.can_stratify = true};
    case Labels::sets:
      return {.may_be_empty = true, .usual_separator = ",", .separates_names = true};
    case Labels::spans:
    case Labels::words:
    case Labels::levels:
    case Labels::scores:
      return {};
    case Labels::none:
      return {.stratifies_usually = true};
  }
  return {};
}

}  // namespace bert_hpc::prep
