// The files of a tokenizer that are copied into the folder of a trained model.
#include <algorithm>
#include <filesystem>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json_strict.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "bert_hpc/tokenize/tokenizer_folder.hpp"

namespace bert_hpc::tokenize {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t longest_file = std::int64_t{256} << 20;  // bytes

/// Names of the files that any kind may have, and of each kind's own files.
std::vector<std::string> copied_names() {
  std::vector<std::string> names = {"tokenizer_config.json", "tokenizer.json", "special_tokens_map.json",
                                    "added_tokens.json"};
  for (const TokenizerKind* kind : tokenizer_kinds()) {
    if (kind->own_file_problem == nullptr) continue;
    for (const char* own : kind->own_files) {
      if (std::find(names.begin(), names.end(), own) == names.end()) names.emplace_back(own);
    }
  }
  return names;
}

/// "" if a kind takes the text for its own file of this name, else what each of them says.
std::string problem_of(const std::string& name, const std::string& text) {
  std::string problems;
  for (const TokenizerKind* kind : tokenizer_kinds()) {
    const auto& own = kind->own_files;
    if (kind->own_file_problem == nullptr || std::find(own.begin(), own.end(), name) == own.end()) continue;
    const std::string problem = kind->own_file_problem(name, text);
    if (problem.empty()) return {};
    problems += (problems.empty() ? "" : ", and ") + problem;
  }
  return problems;
}

std::string copied_text(const fs::path& path) {
  std::string text = core::read_text_file(path.string(), longest_file);
  if (path.extension() == ".json") {
    core::parse_strict_json(text, path.string());
  } else if (const std::string problem = problem_of(path.filename().string(), text); !problem.empty()) {
    throw core::Error(core::ExitCode::files, path.string() + ": is " + problem + '.');
  }
  return text;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> copied_tokenizer_files(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const std::string& name : copied_names()) {
    const fs::path file = fs::path(path) / name;
    std::error_code ignored;
    if (fs::exists(file, ignored)) files.emplace_back(name, copied_text(file));
  }
  return files;
}

}  // namespace bert_hpc::tokenize
