#include "bert_hpc/data/words.hpp"

#include <algorithm>

namespace bert_hpc::data {

std::vector<std::int32_t> classes_inside(const std::vector<std::string>& label_names) {
  std::vector<std::int32_t> classes;
  for (const std::string& name : label_names) {
    const std::string inside = name.starts_with("B-") ? "I-" + name.substr(2) : name;
    const auto found = std::find(label_names.begin(), label_names.end(), inside);
    const auto own = static_cast<std::int32_t>(classes.size());
    classes.push_back(found == label_names.end() ? own : static_cast<std::int32_t>(found - label_names.begin()));
  }
  return classes;
}

}  // namespace bert_hpc::data
