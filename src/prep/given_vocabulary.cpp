#include "given_vocabulary.hpp"

#include <filesystem>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"

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

tokenize::TokenizerFolder given_tokenizer(const TokenizerConfig& tokenizer) {
  const tokenize::TokenizerKind* const wanted =
      tokenizer.type.empty() ? nullptr : tokenize::find_tokenizer_kind(tokenizer.type);
  if (is_folder(tokenizer.vocabulary)) return tokenize::read_tokenizer_folder(tokenizer.vocabulary, "", wanted);
  const fs::path file = tokenizer.vocabulary, folder = file.parent_path();
  if (!is_file(file)) return {};
  if (tokenize::is_tokenizer_file(file.filename().string())) {
    return tokenize::read_tokenizer_folder(folder.empty() ? "." : folder.string(), file.filename().string(), wanted);
  }
  return file.extension() == ".json" ? tokenize::read_tokenizer_file(tokenizer.vocabulary)
                                     : tokenize::TokenizerFolder();
}

namespace {

/// The tokenizer of a file of any name, or of a folder's own file that says what is wrong with it.
std::unique_ptr<tokenize::Tokenizer> load_file(const PrepConfig& config, const std::string& file) {
  const tokenize::TokenizerKind& kind = config.tokenizer_kind();
  if (kind.read_file == nullptr) {
    const std::string own = core::listed(std::vector<std::string>(kind.own_files.begin(), kind.own_files.end()),
                                         kind.converts_files ? "or" : "and", false);
    throw Error(ExitCode::files, file + ": cannot be read as a vocabulary of a " + kind.title +
                                     " tokenizer; give a folder" +
                                     (own.empty() ? " or a tokenizer.json." : ", a tokenizer.json or " + own + "."));
  }
  tokenize::TokenizerParts parts = kind.read_file(file);
  parts.settings = config.tokenizer.settings;
  return kind.make(std::move(parts), file);
}

}  // namespace

std::unique_ptr<tokenize::Tokenizer> load_tokenizer(const PrepConfig& config) {
  const fs::path path = config.tokenizer.vocabulary;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw Error(ExitCode::files,
                "there is no file or folder " + core::printable(path.string()) +
                    ". A vocabulary is a Hugging Face folder or its tokenizer.json or vocab.txt on this "
                    "machine. Nothing is downloaded: \"hf download REPOSITORY --local-dir FOLDER\" does.");
  }
  if (is_file(path) && (path.extension() == ".safetensors" || path.extension() == ".bin")) {
    throw Error(ExitCode::files, core::printable(path.string()) +
                                     " holds weights, not a vocabulary: give the model's folder, its tokenizer.json or "
                                     "its vocab.txt.");
  }
  tokenize::TokenizerFolder given;
  try {
    given = given_tokenizer(config.tokenizer);
  } catch (const Error&) {
    if (is_file(path / "vocab.txt")) load_file(config, path / "vocab.txt");  // says what is wrong with it, if anything
    throw;
  }
  if (!given.parts.vocabulary.empty()) {
    if (given.kind->name != config.tokenizer.type) {
      throw Error(ExitCode::input, given.path + "/" + given.file + ": holds a " + given.kind->title +
                                       " tokenizer, but [tokenizer] type is \"" + config.tokenizer.type +
                                       "\": leave type out, or set it to \"" + given.kind->name + "\".");
    }
    given.parts.settings = config.tokenizer.settings;
    return given.kind->make(std::move(given.parts), (is_folder(path) ? path / given.file : path).string());
  }
  if (!given.problems.empty()) throw Error(ExitCode::files, given.problems.front());
  if (!is_folder(path) && (path.extension() != ".json" || !is_file(path))) return load_file(config, path);
  throw Error(ExitCode::files, tokenize::missing_tokenizer(path));
}

}  // namespace bert_hpc::prep
