// Normalizers, pre-tokenizers and templates of tokenizers whose words have the mark "▁", as tokenizer.json has them,
// read and written. Internal to the module.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bert_hpc/tokenize/word_marks.hpp"
#include "template_json.hpp"

namespace bert_hpc::tokenize {

/// Settings that these sections state.
struct MarkedForm {
  std::string character_map{};  ///< base64
  WordMarks marks{};            ///< without the map
  /// The lists of a TemplateProcessing; empty if texts have no special tokens around them.
  nlohmann::json single = nlohmann::json::array(), pair = nlohmann::json::array();
};
/// Reads normalizer, pre_tokenizer and post_processor of a document; appends a problem for each component that is not
/// computed. `model`: its name, for messages. needs_metaspace: a document without a Metaspace is a problem.
MarkedForm read_marked_form(const nlohmann::json& document, const char* model, bool needs_metaspace,
                            std::vector<std::string>& problems);
/// The form as JSON that marked_form_of() reads.
nlohmann::json sections_of(const MarkedForm& form);
MarkedForm marked_form_of(const nlohmann::json& sections);

/// prepend_scheme of a Metaspace.
const char* name_of(WordMark mark);

/// The marks with their map. Throws Error(data), naming `source`, if the map is damaged.
WordMarks marks_of(const MarkedForm& form, const std::string& source);

/// The document but for its model: the sections in the order in which Hugging Face's tokenizers library writes them.
/// `ids`: of the template's tokens.
nlohmann::ordered_json marked_document(const MarkedForm& form, const std::vector<AddedToken>& added,
                                       const TokenTemplate& tokens, const SpecialIds& ids);

}  // namespace bert_hpc::tokenize
