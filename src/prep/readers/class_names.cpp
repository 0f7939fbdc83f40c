#include "class_names.hpp"

#include <nlohmann/json.hpp>

#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/json_depth.hpp"

namespace bert_hpc::prep {
namespace {

using nlohmann::json;

constexpr int deepest = 100;

/// The member `name` of an object; null if there is none.
const json* member(const json* object, const char* name) {
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto found = object->find(name);
  return found == object->end() ? nullptr : &*found;
}

}  // namespace

std::vector<std::string> class_names(std::string_view description, const std::string& column) {
  if (core::nests_too_deep(description, deepest)) return {};
  const json all = core::parse_json(description);
  const json* feature = member(member(member(&all, "info"), "features"), column.c_str());
  if (feature != nullptr && feature->is_array() && feature->size() == 1) feature = &feature->front();
  if (const json* const entry = member(feature, "feature")) feature = entry;  // of a list
  const json* const type = member(feature, "_type");
  const json* const names = member(feature, "names");
  if (type == nullptr || *type != "ClassLabel" || names == nullptr || !names->is_array()) return {};
  std::vector<std::string> found;
  for (const json& name : *names) {
    if (!name.is_string()) return {};
    found.push_back(name);
  }
  return found;
}

}  // namespace bert_hpc::prep
