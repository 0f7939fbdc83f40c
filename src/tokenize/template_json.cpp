#include "template_json.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "json_sections.hpp"

namespace bert_hpc::tokenize {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

/// An element of a template list.
struct TemplatePart {
  bool is_text = false;
  std::string name;
  int type = 0;
};

std::optional<std::vector<TemplatePart>> template_parts(const json& list) {
  std::vector<TemplatePart> parts;
  if (!list.is_array()) return std::nullopt;
  for (const json& element : list) {
    const bool is_text = element.is_object() && element.contains("Sequence");
    const json& content = member(element, is_text ? "Sequence" : "SpecialToken");
    const json &id = member(content, "id"), &type = member(content, "type_id");
    if (!id.is_string() || !type.is_number_integer() || type < 0 || type > 1) return std::nullopt;
    parts.push_back({is_text, id.get<std::string>(), type.get<int>()});
  }
  return parts;
}

}  // namespace

std::optional<TokenTemplate> template_of(const json& single, const json& pair, std::string& problem) {
  TokenTemplate found;
  if (single.is_array() && single.empty() && pair.is_array() && pair.empty()) return found;
  problem = "has the template " + shown(single) + " and " + shown(pair) +
            "; this version reads templates of a text, or of two, with at most two different special tokens.";
  const auto one = template_parts(single), two = template_parts(pair);
  if (!one || !two) return std::nullopt;
  const auto is_text = [](const char* name) {
    return [name](const TemplatePart& part) { return part.is_text && part.name == name; };
  };
  const auto is_any_text = [](const TemplatePart& part) { return part.is_text; };
  const auto a1 = std::find_if(one->begin(), one->end(), is_text("A")),
             a2 = std::find_if(two->begin(), two->end(), is_text("A"));
  const auto b2 = std::find_if(two->begin(), two->end(), is_text("B"));
  const bool in_order = a1 != one->end() && a2 != two->end() && b2 != two->end() && a2 < b2 &&
                        std::count_if(one->begin(), one->end(), is_any_text) == 1 &&
                        std::count_if(two->begin(), two->end(), is_any_text) == 2;
  if (!in_order) return std::nullopt;
  bool good = true;
  // Takes the parts over as roles: the first token before a text is cls, another one is sep.
  const auto take = [&](auto begin, auto end, SequenceTemplate::Roles& roles, bool before) {
    for (auto part = begin; part != end; ++part) {
      if (before && found.cls.empty()) found.cls = part->name;
      if (part->name == found.cls) {
        roles.push_back(&SpecialIds::cls);
        continue;
      }
      if (found.sep.empty()) found.sep = part->name;
      good = good && part->name == found.sep;
      roles.push_back(&SpecialIds::sep);
    }
  };
  SequenceTemplate& sequence = found.sequence;
  SequenceTemplate::Roles before;
  take(one->begin(), a1, sequence.before, true);
  take(a1 + 1, one->end(), sequence.after, false);
  take(two->begin(), a2, before, true);
  take(a2 + 1, b2, sequence.between, false);
  take(b2 + 1, two->end(), sequence.after_pair, false);
  // Tokens have type 0 up to some token between the texts, and the second text's type from there on.
  const auto of_type = [](int type) { return [type](const TemplatePart& part) { return part.type == type; }; };
  const auto second = b2->type == 0 ? b2 : std::find_if_not(two->begin(), b2, of_type(0));
  sequence.second_type = static_cast<std::uint8_t>(b2->type);
  sequence.second_between = b2 - second;
  good = good && before == sequence.before && std::all_of(one->begin(), one->end(), of_type(0)) && second > a2 &&
         std::all_of(two->begin(), second, of_type(0)) && std::all_of(second, two->end(), of_type(b2->type));
  // Without special tokens texts have one token type: GPT-2 has no types.
  if (found.cls.empty() && found.sep.empty()) sequence.second_type = 0;
  if (!good) return std::nullopt;
  problem.clear();
  return found;
}

ordered_json template_processing(const json& single, const json& pair, const TokenTemplate& tokens,
                                 const SpecialIds& ids) {
  ordered_json listed = ordered_json::object();
  for (const auto& [name, id] : {std::pair(tokens.cls, ids.cls), std::pair(tokens.sep, ids.sep)}) {
    if (name.empty()) continue;
    listed[name] = {{"id", name}, {"ids", ordered_json::array({id})}, {"tokens", ordered_json::array({name})}};
  }
  return {{"type", "TemplateProcessing"},
          {"single", ordered_json(single)},
          {"pair", ordered_json(pair)},
          {"special_tokens", listed}};
}

}  // namespace bert_hpc::tokenize
