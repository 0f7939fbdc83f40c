#include "given_vocabulary.hpp"

#include <filesystem>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::prep {

namespace fs = std::filesystem;
using core::Error;
using core::ExitCode;

namespace {

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

}  // namespace

data::TokenizerFolder given_tokenizer(const TokenizerConfig& tokenizer) {
  if (is_folder(tokenizer.vocabulary)) return data::read_tokenizer_folder(tokenizer.vocabulary);
  const fs::path file = tokenizer.vocabulary, folder = file.parent_path();
  if (!is_file(file)) return {};
  if (file.filename() == "vocab.txt" || file.filename() == "tokenizer.json") {
    return data::read_tokenizer_folder(folder.empty() ? "." : folder.string(), file.filename().string());
  }
  return file.extension() == ".json" ? data::read_tokenizer_file(tokenizer.vocabulary) : data::TokenizerFolder();
}

std::unique_ptr<tokenize::Tokenizer> load_tokenizer(const PrepConfig& config) {
  const fs::path path = config.tokenizer.vocabulary;
  const tokenize::TokenizerKind& kind = config.tokenizer_kind();
  const tokenize::TextForm form = config.text_form();
  data::TokenizerFolder given;
  try {
    given = given_tokenizer(config.tokenizer);
  } catch (const Error&) {
    if (is_file(path / "vocab.txt")) kind.load(path / "vocab.txt", form);  // says what is wrong with it, if anything
    throw;
  }
  if (!given.vocabulary.empty()) {
    return kind.make(std::move(given.vocabulary), std::move(given.added), form,
                     (is_folder(path) ? path / given.file : path).string());
  }
  if (!is_folder(path) && (path.extension() != ".json" || !is_file(path))) return kind.load(path, form);
  if (given.problems.empty()) throw Error(ExitCode::files, data::missing_tokenizer(path));
  throw Error(ExitCode::files, given.problems.front());
}

}  // namespace bert_hpc::prep
