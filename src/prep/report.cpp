// What is checked before and told after the work itself.
#include "report.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <sstream>

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/data/file_list.hpp"
#include "bert_hpc/data/tokenizer_folder.hpp"
#include "bert_hpc/prep/prepare.hpp"
#include "staging.hpp"

namespace bert_hpc::prep {

using core::Error;
using core::ExitCode;
using tokenize::Vocabulary;

namespace {

constexpr std::size_t most_problems = 20, most_keys = 6;  // shown
constexpr double least_cased = 0.1;  // of a vocabulary's words: between BERT-base's 0 (uncased) and 0.36 (cased)

/// The lines of resolved_toml() as "[table] key" and the value.
std::map<std::string, std::string> keyed_lines(const std::string& toml) {
  std::map<std::string, std::string> keys;
  std::istringstream lines(toml);
  std::string line, table;
  while (std::getline(lines, line)) {
    const auto equals = line.find(" = ");
    if (line.starts_with('[')) {
      table = line + ' ';
    } else if (equals != std::string::npos) {
      keys[table + line.substr(0, equals)] = line.substr(equals + 3);
    }
  }
  return keys;
}

/// Runs `check`; what it throws becomes one of the problems, headed by the keys that it is about.
template <class Check>
void note(core::ProblemList& problems, ExitCode& code, const std::string& keys, const Check& check) {
  try {
    check();
  } catch (const Error& error) {
    if (problems.empty()) code = error.code();
    problems.add(keys + ": " + error.what());
  }
}

void check_directory(const std::string& directory) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::absolute(directory, error);
  while (!std::filesystem::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  if (!std::filesystem::is_directory(folder, error)) {
    throw Error(ExitCode::files, directory + ": cannot be written: " + folder.string() + " is no directory.");
  }
  if (::access(folder.c_str(), W_OK) != 0) {
    throw Error(ExitCode::files,
                directory + ": cannot be written: " + folder.string() + ": " + std::strerror(errno) + ".");
  }
}

/// The values of an earlier run that differ now, as "[table] key"; nothing if its prep.toml cannot be read.
std::optional<std::vector<std::string>> changed_keys(const PrepConfig& config) {
  try {
    PrepConfig earlier = read_prep_config(config.output.directory + "/prep.toml", {});
    earlier.output.directory = config.output.directory;  // it was perhaps named otherwise
    const auto before = keyed_lines(resolved_toml(earlier)), now = keyed_lines(resolved_toml(config));
    std::vector<std::string> changed;
    for (const auto& [key, value] : now) {
      const auto found = before.find(key);
      if (found == before.end() || found->second != value) changed.push_back(key);
    }
    for (const auto& [key, value] : before) {
      if (!now.contains(key)) changed.push_back(key);
    }
    return changed;
  } catch (const Error&) {
    return std::nullopt;
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

std::string vocabulary_file(const TokenizerConfig& tokenizer) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(tokenizer.vocabulary, ignored);
  return folder ? tokenizer.vocabulary + "/vocab.txt" : tokenizer.vocabulary;
}

/// The folder whose vocab.txt is used; nothing where there is none.
data::TokenizerFolder vocabulary_folder(const TokenizerConfig& tokenizer) {
  const std::filesystem::path file = vocabulary_file(tokenizer), folder = file.parent_path();
  std::error_code ignored;
  if (file.filename() != "vocab.txt" || !std::filesystem::is_regular_file(file, ignored)) return {};
  return data::read_tokenizer_folder(folder.empty() ? "." : folder.string());
}

/// Text is read as the vocabulary is for, and as the splitter can.
void check_text(const PrepConfig& config, core::ProblemList& problems, ExitCode& code) {
  const data::TextSettings text = config.text();
  const bool has_folder = config.tokenizer.train_size == 0;
  const data::TokenizerFolder folder = has_folder ? vocabulary_folder(config.tokenizer) : data::TokenizerFolder();
  if (const data::TextSetting* setting = first_difference(text, folder.text); setting != nullptr) {
    const std::string name = setting->name, theirs = data::word(*(folder.text.completed().*setting->value));
    note(problems, code, "[tokenizer] " + name, [&] {
      throw Error(ExitCode::input, std::string("it is ") + data::word(*(text.*setting->value)) + ", and " +
                                       folder.path + "/tokenizer_config.json, beside the vocabulary, says " +
                                       setting->hugging_face_name + " = " + theirs + ": leave " + name +
                                       " out, or set it to " + theirs + ".");
    });
  } else if (*text.strip_accents && !*text.lowercase) {
    note(problems, code, "[tokenizer] strip_accents", [&] {
      throw Error(ExitCode::input,
                  "it is true and lowercase is false, but accents are stripped of lower-cased text alone. Set "
                  "strip_accents = false for a vocabulary that has accents, or lowercase = true.");
    });
  }
}

/// Files that are there and open, each once; at most most_problems of them are told.
void check_source_files(const PrepConfig& config, core::ProblemList& problems, ExitCode& code) {
  std::vector<std::string> columns = config.source.text;
  columns.insert(columns.end(), config.source.text_pair.begin(), config.source.text_pair.end());
  if (config.has_labels()) columns.push_back(config.source.label);
  std::vector<data::ListedFile> listed;
  for (const auto& [key, files] : file_lists(config)) {
    core::ProblemList unmatched;
    for (const std::string& file : data::match_paths(*files, unmatched)) {
      if (problems.all().size() == most_problems) return;
      note(problems, code, key, [&] { tokenize::open_rows(file, config.row_format(), columns); });
      listed.push_back({key, file});
    }
    for (const std::string& problem : unmatched.all()) {
      note(problems, code, key, [&] { throw Error(ExitCode::files, problem); });
    }
  }
  for (const data::RepeatedFile& file : data::repeated_files(listed)) {
    if (problems.all().size() == most_problems) return;
    if (problems.empty()) code = ExitCode::input;
    problems.add(describe(file) + (file.in_one_list() ? ": its rows would count twice. Name it once."
                                                      : ": rows that train must not judge. Name it in one of them."));
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
  const data::TextSettings told = vocabulary_folder(config.tokenizer).text;
  data::TextSettings& text = config.tokenizer.text;
  for (const data::TextSetting& setting : data::text_settings) {
    if (!(text.*setting.value)) text.*setting.value = told.*setting.value;
  }
  config.tokenizer.lowercase_assumed = !text.lowercase;
  text = config.text();
}

std::optional<Vocabulary> checked_vocabulary(const PrepConfig& config) {
  core::ProblemList problems;
  ExitCode code = ExitCode::files;
  check_source_files(config, problems, code);
  std::optional<Vocabulary> vocabulary;
  if (config.tokenizer.train_size == 0) {
    note(problems, code, "[tokenizer] vocabulary",
         [&] { vocabulary = Vocabulary::load(vocabulary_file(config.tokenizer)); });
  }
  check_text(config, problems, code);
  note(problems, code, "[output] directory", [&] { check_directory(config.output.directory); });
  if (problems.all().size() == 1) throw Error(code, problems.all().front());
  problems.throw_if_any(code, "the text cannot be prepared:");
  return vocabulary;
}

std::string doubt_of_case(const PrepConfig& config, const Vocabulary& vocabulary) {
  const double share = config.tokenizer.lowercase_assumed ? tokenize::capital_share(vocabulary.pieces()) : 0;
  if (share < least_cased) return {};
  return core::format_number(100 * share, 2) +
         "% of the vocabulary's words hold capitals, which lower-cased text never meets: for a cased model's "
         "vocabulary "
         "set [tokenizer] lowercase = false (or true, if lower-cased text is meant).";
}

void find_labels(PrepConfig& config) {
  if (!config.has_labels() || config.source.label_given || !config.only_tests()) return;
  std::vector<std::string> files = config.source.files;
  files.insert(files.end(), config.source.test_files.begin(), config.source.test_files.end());
  const auto has_column = [&](const std::string& file, const std::vector<std::string>& columns) {
    try {
      tokenize::Row row;
      const auto reader = tokenize::open_rows(file, config.row_format(), columns);
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

void check_files(const PrepConfig& config) {
  checked_vocabulary(config);
}

std::string describe_replaced(const PrepConfig& config) {
  const auto count = static_cast<std::int64_t>(shard_names(config.output.directory).size());
  if (count == 0) return {};
  std::string line = core::counted(count, "shard") + " of an earlier run in " + config.output.directory;
  const auto changed = changed_keys(config);
  if (!changed) return line + ", whose prep.toml is missing or cannot be read";
  if (changed->empty()) return line + ", made with the same input file";
  const bool all = changed->size() <= most_keys;
  std::vector<std::string> shown(changed->begin(), all ? changed->end() : changed->begin() + most_keys);
  if (!all) shown.push_back("others");
  return line + ", made with another input file: it differs in " + core::listed(shown, "and", false);
}

namespace {

/// What a summary adds to the reason why rows were left out.
std::string particulars(RowStatus status, const Summary& summary) {
  if (status == RowStatus::missing_column) return " (the first is " + summary.first_missing + ")";
  if (status == RowStatus::unlisted_label) return ": " + labels_text(summary.unlisted_labels);
  return "";
}

}  // namespace

std::string describe(const Summary& summary, const PrepConfig& config) {
  std::string text;
  const auto line = [&text](const std::string& words) { text += words + '\n'; };
  const auto& status = summary.by_status;
  const std::int64_t kept = status[0] + status[1] + status[2];
  line("rows        " + core::with_commas(summary.rows) + " read, " + core::with_commas(kept) + " kept, " +
       core::with_commas(summary.rows - kept) + " left out (see rejects.tsv)");
  for (int s = split_count; s < row_status_count; ++s) {
    if (const std::int64_t count = status[static_cast<std::size_t>(s)]; count > 0) {
      line("            " + core::with_commas(count) + ": " + reason(static_cast<RowStatus>(s)) +
           particulars(static_cast<RowStatus>(s), summary));
    }
  }
  for (int s = 0; s < split_count; ++s) {
    const SplitSummary& split = summary.splits[static_cast<std::size_t>(s)];
    if (split.sequences == 0) continue;
    std::string name = to_string(static_cast<Split>(s));
    name.resize(12, ' ');
    line(name + core::counted(split.sequences, "sequence") + ", " + core::counted(split.tokens, "token") +
         " (mean length " +
         core::format_number(static_cast<double>(split.tokens) / static_cast<double>(split.sequences), 3) +
         ", longest " + std::to_string(split.longest) + "), " + core::counted(split.shards, "shard"));
  }
  if (!summary.labels.empty()) {
    line("labels      " + core::with_commas(std::ssize(summary.labels)) + ": " + labels_text(summary.labels));
  }
  if (config.wants_labels() && !config.has_labels())
    line("labels      none: to be predicted, not to train or evaluate on");
  const double tokens = std::max<double>(1, static_cast<double>(summary.words_tokens));
  line("vocabulary  " + core::counted(summary.vocabulary_size, "piece") +
       "; lowercase = " + data::word(*config.text().lowercase) + "; unknown words " +
       core::format_number(100 * static_cast<double>(summary.unknown) / tokens, 2) + "% of the tokens; " +
       core::counted(summary.truncated, "sequence") + " cut to " + std::to_string(config.tokenizer.max_tokens) +
       " tokens");
  line("time        " + core::format_duration(summary.seconds) + ", of it reading and tokenizing " +
       core::format_duration(summary.tokenize_seconds) + " (" +
       core::format_metric(static_cast<double>(summary.text_bytes) / std::max(1e-9, summary.tokenize_seconds)) +
       "B of text a second)");
  line("written to  " + config.output.directory);
  return text;
}

}  // namespace bert_hpc::prep
