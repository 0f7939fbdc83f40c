// What is checked before the work itself: the files that the input names, and what they ask of it.
#include "bert_hpc/prep/check.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/data/file_list.hpp"
#include "bert_hpc/prep/read_config.hpp"
#include "bert_hpc/prep/readers/line_source.hpp"
#include "bert_hpc/tokenize/utf8.hpp"
#include "given_vocabulary.hpp"
#include "input_rules.hpp"
#include "model_lengths.hpp"
#include "ownership.hpp"
#include "readers/text_bytes.hpp"
#include "readers/text_decoder.hpp"

namespace bert_hpc::prep {

using core::Error;
using core::ExitCode;
using tokenize::Tokenizer;

namespace {

constexpr std::size_t most_problems = 20;                    // shown
constexpr const char* usual_sentence_column = "Sentence #";  // of Kaggle's table of named entities

/// Runs `check`; what it throws becomes one of the problems, headed by the keys that it is about.
template <class Check>
void note(core::ProblemList& problems, ExitCode& code, const std::string& keys, const Check& check) {
  try {
    check();
  } catch (const Error& error) {
    const std::string problem = keys + ": " + error.what();
    const auto& all = problems.all();
    if (std::find(all.begin(), all.end(), problem) != all.end()) return;  // found by two checks
    if (problems.empty()) code = error.code();
    problems.add(problem);
  }
}

void check_directory(const std::string& directory) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::absolute(directory, error);
  while (!std::filesystem::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  if (!std::filesystem::is_directory(folder, error)) {
    throw Error(ExitCode::files, directory + ": cannot be written: " + folder.string() + " is not a directory.");
  }
  if (::access(folder.c_str(), W_OK) != 0) {
    throw Error(ExitCode::files,
                directory + ": cannot be written: " + folder.string() + ": " + std::strerror(errno) + ".");
  }
}

/// The lists of files with the keys that give them.
template <class Config>  // PrepConfig, const or not
auto file_lists(Config& config) {
  using List = decltype(&config.source.files);
  return std::array<std::pair<const char*, List>, 3>{{{"[source] files", &config.source.files},
                                                      {"[source] validation_files", &config.source.validation_files},
                                                      {"[source] test_files", &config.source.test_files}}};
}

/// The tokenizer, where a vocabulary is given, and whether text can be prepared as its files ask.
std::unique_ptr<Tokenizer> check_vocabulary(const PrepConfig& config, core::ProblemList& problems, ExitCode& code) {
  if (config.tokenizer.train_size > 0 || config.tokenizer.vocabulary.empty()) return nullptr;
  constexpr const char* key = "[tokenizer] vocabulary";
  std::unique_ptr<Tokenizer> tokenizer;
  note(problems, code, key, [&] { tokenizer = load_tokenizer(config); });
  note(problems, code, "[tokenizer] max_tokens", [&] {
    if (!tokenizer) return;
    const tokenize::SequenceTemplate sequence = config.sequence(tokenizer->sequence());
    const std::int64_t least = least_tokens(config, sequence);
    if (config.tokenizer.max_tokens >= least) return;
    throw Error(ExitCode::input,
                "must be at least " + std::to_string(least) + ": " + describe(sequence, config.has_pairs()) + ".");
  });
  note(problems, code, key, [&] {
    if (!tokenizer || !config.ends_texts() || tokenizer->text_end() >= 0) return;
    throw Error(ExitCode::data, config.tokenizer.vocabulary + " has no token that ends a text, which " +
                                    config.task.name + " needs: name one as eos_token in tokenizer_config.json.");
  });
  note(problems, code, key, [&] {
    for (const std::string& problem : given_tokenizer(config.tokenizer).problems) {
      note(problems, code, key, [&] { throw Error(ExitCode::files, problem); });
    }
  });
  return tokenizer;
}

const char* word(bool value) {
  return value ? "true" : "false";
}

/// Text is read as the vocabulary is for, and as the tokenizer can.
void check_text(const PrepConfig& config, core::ProblemList& problems, ExitCode& code) {
  const tokenize::TokenizerKind& kind = config.tokenizer_kind();
  const tokenize::TokenizerSettings settings = resolved(kind, config.tokenizer.settings);
  const bool has_folder = config.tokenizer.train_size == 0;
  tokenize::TokenizerFolder folder;
  try {
    if (has_folder) folder = given_tokenizer(config.tokenizer);
  } catch (const Error&) {
    return;  // check_vocabulary() reports it
  }
  const tokenize::TokenizerKey* const key =
      folder.kind == &kind ? first_difference(kind, settings, folder.parts.settings) : nullptr;
  if (key != nullptr && !key->is_choice) {
    const std::string name = key->name, theirs = word(completed(kind, folder.parts.settings).at(name));
    note(problems, code, "[tokenizer] " + name, [&] {
      throw Error(ExitCode::input, std::string("it is ") + word(settings.at(name)) + ", but " + folder.says(*key) +
                                       ": leave " + name + " out, or set it to " + theirs + ".");
    });
  } else if (kind.contradiction != nullptr) {
    const auto found = kind.contradiction(settings);
    if (found.second.empty()) return;
    note(problems, code, "[tokenizer] " + found.first, [&] { throw Error(ExitCode::input, found.second); });
  }
}

/// Checks that a file opens whose columns are not known.
void check_unread(const std::string& file, const PrepConfig& config) {
  const TextFormat* const format = find_text_format(config.source.format);
  if (format != nullptr && !format->lacks.empty()) return;  // which is a problem of its own
  if (format != nullptr && !format->is_text) {
    open_rows(file, config.row_format(), {});
  } else {
    const LineSource opened(file, config.source.encoding);
  }
}

/// Files that are there and open, each once; at most most_problems of them are reported. `columns_known`: else which
/// ones were meant is not known, and files need not have them.
void check_source_files(const PrepConfig& config, bool columns_known, core::ProblemList& problems, ExitCode& code) {
  std::vector<std::string> columns = config.source.text;
  columns.insert(columns.end(), config.source.text_pair.begin(), config.source.text_pair.end());
  columns.insert(columns.end(), config.source.negatives.begin(), config.source.negatives.end());
  const std::vector<std::string> labels = config.columns_of_labels();
  columns.insert(columns.end(), labels.begin(), labels.end());
  if (!config.source.id.empty()) columns.push_back(config.source.id);
  if (!config.source.query_id.empty()) columns.push_back(config.source.query_id);
  std::vector<data::ListedFile> listed;
  for (const auto& [key, files] : file_lists(config)) {
    core::ProblemList unmatched;
    const bool divided = files == &config.source.files;  // by [split]
    for (const std::string& file : data::match_paths(*files, unmatched)) {
      if (problems.all().size() >= most_problems) return;
      note(problems, code, key, [&] {
        if (!columns_known) return check_unread(file, config);
        std::vector<std::string> wanted = columns;
        if (divided && !config.split.group.empty()) wanted.push_back(config.split.group);
        open_rows(file, config.row_format(), wanted);
      });
      listed.push_back({key, file});
    }
    for (const std::string& problem : unmatched.all()) {
      note(problems, code, key, [&] { throw Error(ExitCode::files, problem); });
    }
  }
  for (const data::RepeatedFile& file : data::repeated_files(listed)) {
    if (problems.all().size() >= most_problems) return;
    if (problems.empty()) code = ExitCode::input;
    problems.add(describe(file) +
                 (file.in_one_list()
                      ? ": its rows would count twice. Name it once."
                      : ": a row for training must not be used for evaluation as well. Name it in one of "
                        "them."));
  }
}

/// All that the input names. `columns`: is known which columns files must have? `text`: are the tokenizer's settings
/// known? What is not given was reported before.
std::unique_ptr<Tokenizer> check_named(const PrepConfig& config, bool columns, bool text, core::ProblemList& problems,
                                       ExitCode& code) {
  check_source_files(config, columns, problems, code);
  std::unique_ptr<Tokenizer> tokenizer = check_vocabulary(config, problems, code);
  if (text) check_text(config, problems, code);
  if (!config.output.directory.empty()) {
    note(problems, code, "[output] directory", [&] {
      check_directory(config.output.directory);
      refuse_foreign_files(config.output.directory);
    });
  }
  return tokenizer;
}

/// Completes [tokenizer] by the vocabulary's files and by what is usual. Switches of other kinds are problems.
void settle_tokenizer(PrepConfig& config) {
  TokenizerConfig& tokenizer = config.tokenizer;
  const tokenize::TokenizerFolder folder = given_tokenizer(tokenizer);
  if (tokenizer.type.empty() && folder.kind != nullptr) tokenizer.type = folder.kind->name;
  const tokenize::TokenizerKind& kind = config.tokenizer_kind();
  tokenizer.type = kind.name;
  tokenize::TokenizerSettings& settings = tokenizer.settings;
  for (const auto& setting : settings) {
    const std::string& name = setting.first;
    const auto is_named = [&](const tokenize::TokenizerKey& key) { return key.name == name; };
    if (std::any_of(kind.keys.begin(), kind.keys.end(), is_named)) continue;
    throw Error(ExitCode::input, "[tokenizer] " + name + " is no switch of a " + kind.title +
                                     " tokenizer, which type = \"" + kind.name + "\" names: leave it out.");
  }
  const bool same_kind = folder.kind == &kind;
  const tokenize::TokenizerSettings stated = same_kind ? folder.parts.settings : tokenize::TokenizerSettings();
  const bool chooses = !kind.keys.empty() && settings.contains(kind.keys.front().name);
  if (same_kind && !chooses) tokenizer.conflict = folder.conflict;
  for (const tokenize::TokenizerKey& key : kind.keys) {
    if (!config.has_words() || !key.for_words || settings.contains(key.name)) continue;
    settings[key.name] = *key.for_words;
    tokenizer.note =
        std::string("[tokenizer] ") + key.name + " = " + word(*key.for_words) + ", because the text is given in words";
  }
  settings.insert(stated.begin(), stated.end());
  for (const tokenize::TokenizerKey& key : kind.keys) {
    if (!settings.contains(key.name)) tokenizer.assumed[key.name] = key.usual;
  }
  settings = resolved(kind, settings);
  if (tokenizer.max_tokens_given || !config.parts_texts()) return;
  if (const std::int64_t tokens = sentence_tokens_of(model_folder(tokenizer)); tokens > 0) {
    tokenizer.max_tokens = tokens;
    tokenizer.note = "[tokenizer] max_tokens = " + std::to_string(tokens) + ", as sentence_bert_config.json says";
  }
}

}  // namespace

void settle(PrepConfig& config) {
  for (const auto& [key, files] : file_lists(config)) {
    std::vector<std::string> found;
    for (const std::string& path : *files) {
      core::ProblemList unmatched;
      const std::vector<std::string> matches = data::match_paths({path}, unmatched);
      found.insert(found.end(), matches.begin(), matches.end());
      if (matches.empty()) found.push_back(path);
    }
    *files = std::move(found);
  }
  settle_tokenizer(config);
}

std::unique_ptr<Tokenizer> checked_tokenizer(const PrepConfig& config) {
  core::ProblemList problems;
  ExitCode code = ExitCode::files;
  std::unique_ptr<Tokenizer> tokenizer = check_named(config, true, true, problems, code);
  if (problems.all().size() == 1) throw Error(code, problems.all().front());
  problems.throw_if_any(code, "the text cannot be prepared:");
  return tokenizer;
}

PrepConfig given_config(const std::string& path, const std::vector<std::string>& overrides) {
  ReadPrepConfig read = read_with_problems(path, overrides);
  PrepConfig& config = read.config;
  core::ProblemList& problems = read.problems;
  ExitCode code = ExitCode::input;
  note(problems, code, "[tokenizer] vocabulary", [&] { settle(config); });
  if (problems.empty()) {
    find_sentences(config);
    find_labels(config);
    find_label_names(config);
    return std::move(config);
  }
  const auto wrong = [reported = problems.all()](const std::string& table) {
    return std::any_of(reported.begin(), reported.end(),
                       [&](const std::string& text) { return text.find(table) != std::string::npos; });
  };
  const bool columns_known = !wrong("[source]") && !wrong("[split]") && !wrong("[task]");
  if (columns_known) {
    find_sentences(config);
    find_labels(config);
  }
  check_named(config, columns_known, !wrong("[tokenizer]"), problems, code);
  problems.throw_if_any(code, "the input cannot be used:");
  return {};
}

void find_sentences(PrepConfig& config) {
  const bool may_have = config.has_words() && config.source.sentence.empty() && config.source.header &&
                        config.text_format().takes_table_keys;
  if (!may_have) return;
  std::vector<std::string> files = config.source.files;
  files.insert(files.end(), config.source.validation_files.begin(), config.source.validation_files.end());
  files.insert(files.end(), config.source.test_files.begin(), config.source.test_files.end());
  if (files.empty()) return;
  try {
    for (const std::string& file : files) open_rows(file, config.row_format(), {usual_sentence_column});
  } catch (const Error&) {
    return;
  }
  config.source.sentence = usual_sentence_column;
}

void find_labels(PrepConfig& config) {
  if (!config.has_labels() || config.source.label_given || !config.only_tests()) return;
  std::vector<std::string> files = config.source.files;
  files.insert(files.end(), config.source.test_files.begin(), config.source.test_files.end());
  const auto has_column = [&](const std::string& file, const std::vector<std::string>& columns) {
    try {
      Row row;
      const auto reader = open_rows(file, config.row_format(), columns);
      return reader->next(row) && row.problem.empty() && row.values.back().has_value();
    } catch (const Error&) {
      return false;
    }
  };
  for (const std::string& file : files) {
    if (!has_column(file, config.source.text) || has_column(file, {config.source.label})) return;
  }
  config.source.label.clear();
}

void find_label_names(PrepConfig& config) {
  const auto names_of = config.text_format().label_names;
  const bool may_name = names_of != nullptr && config.has_labels() && config.source.label_columns.empty() &&
                        config.kind().has_label_names();
  const bool takes_all = config.filter.most_frequent_labels == 0 && config.filter.min_rows_per_label <= 1;
  if (!may_name || !takes_all || !config.task.labels.empty()) return;
  std::vector<std::string> found;
  try {
    for (const auto& [key, files] : file_lists(config)) {
      for (const std::string& file : *files) {
        const std::vector<std::string> names = names_of(file, config.source.label);
        if (names.empty() || (!found.empty() && names != found)) return;
        found = names;
      }
    }
  } catch (const Error&) {
    return;
  }
  config.task.labels = std::move(found);
}

namespace {

constexpr std::size_t looked_at = std::size_t{64} << 10;  // bytes of a file

/// Whether a file that begins with `start` is UTF-8 with characters beyond ASCII. The last character may be cut off.
bool seems_utf8(std::string_view start) {
  constexpr int longest = 4;  // bytes of a character
  const auto is_ascii = [](char byte) { return static_cast<unsigned char>(byte) < 0x80; };
  for (int i = 0; i < longest && !start.empty() && !is_ascii(start.back()); ++i) {
    const bool begins = static_cast<unsigned char>(start.back()) >= 0xC0;
    start.remove_suffix(1);
    if (begins) break;
  }
  return !std::all_of(start.begin(), start.end(), is_ascii) && tokenize::is_valid_utf8(start);
}

}  // namespace

std::vector<std::string> marked_files(const PrepConfig& config) {
  if (!config.text_format().is_text) return {};
  std::map<std::string, std::vector<std::string>> files_of;  // by encoding
  std::vector<std::string> lines;
  for (const auto& [key, files] : file_lists(config)) {
    for (const std::string& file : *files) {
      std::error_code ignored;
      if (!std::filesystem::is_regular_file(file, ignored)) continue;  // what is read from a pipe is gone
      std::string start(looked_at, '\0');
      TextBytes bytes(file);
      start.resize(bytes.read(start.data(), start.size()));
      const std::string mark = marked_encoding(start);
      if (mark.empty() && !is_utf8(config.source.encoding) && seems_utf8(start)) {
        lines.push_back("warning: " + file + " seems to be UTF-8, and is read as [source] encoding = \"" +
                        core::printable(config.source.encoding, 40) + "\" says: remove the key if that is wrong");
      }
      const bool is_as_said = mark.empty() || (is_utf8(mark) && is_utf8(config.source.encoding));
      if (!is_as_said) files_of[mark].push_back(file);
    }
  }
  for (const auto& [encoding, files] : files_of) {
    const bool one = files.size() == 1;
    lines.push_back((one ? files.front() + " is" : core::with_commas(std::ssize(files)) + " files are") + " read as " +
                    encoding + ", as " + (one ? "its byte order mark says" : "their byte order marks say"));
  }
  return lines;
}

std::vector<std::string> check_files(const PrepConfig& config) {
  const std::unique_ptr<Tokenizer> tokenizer = checked_tokenizer(config);
  return tokenizer ? doubts(config, *tokenizer) : std::vector<std::string>();
}

}  // namespace bert_hpc::prep
