#include "given_vocabulary.hpp"

#include <filesystem>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::prep {

namespace fs = std::filesystem;
using core::Error;
using core::ExitCode;
using tokenize::Vocabulary;

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

Vocabulary load_vocabulary(const TokenizerConfig& tokenizer) {
  const fs::path path = tokenizer.vocabulary;
  if (!is_folder(path) && path.extension() != ".json") return Vocabulary::load(path);
  if (is_file(path / "vocab.txt")) return Vocabulary::load(path / "vocab.txt");
  if (!is_folder(path) && !is_file(path)) Vocabulary::load(path);  // says why it cannot be read
  data::TokenizerFolder given = given_tokenizer(tokenizer);
  if (given.has_vocabulary())
    return {std::move(given.vocabulary), (is_folder(path) ? path / given.file : path).string()};
  if (given.problems.empty()) throw Error(ExitCode::files, data::missing_tokenizer(path));
  throw Error(ExitCode::files, given.problems.front());
}

}  // namespace bert_hpc::prep
