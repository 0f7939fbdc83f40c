// The list of all model families.
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "family.hpp"

namespace bert_hpc::model {

extern const Family albert, bert, bilstm, camembert, deberta, distilbert, electra, esm, eurobert, gpt2, modernbert,
    mpnet, nomic_bert, roberta, xlm_roberta;

namespace {

constexpr const Family* all[] = {
    &bert,      &distilbert,  &electra, &gpt2,  &modernbert, &nomic_bert, &eurobert, &roberta,
    &camembert, &xlm_roberta, &esm,     &mpnet, &albert,     &deberta,    &bilstm,
};

}  // namespace

std::span<const Family* const> families() {
  return all;
}

const Family& family_of(const std::string& model_type) {
  for (const Family* family : all) {
    if (family->model_type == model_type) return *family;
  }
  throw core::Error(core::ExitCode::input,
                    "model.family is \"" + model_type + "\"; supported are " + family_list() + ".");
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family* family : all) names.push_back(family->model_type);
  return names;
}

std::vector<core::KnownFamily> known_families() {
  std::vector<core::KnownFamily> settings;
  for (const Family* family : all) {
    core::KnownFamily& one = settings.emplace_back();
    one.name = family->model_type;
    one.attention = family->attention;
    for (const OwnNumber& number : family->numbers()) one.keys.push_back({.key = number.key, .limits = number.limits});
    for (const OwnWord& word : family->words) {
      one.keys.push_back({.key = word.key, .words = {word.allowed.begin(), word.allowed.end()}});
    }
  }
  return settings;
}

std::string family_list() {
  return core::listed(family_names(), "and");
}

}  // namespace bert_hpc::model
