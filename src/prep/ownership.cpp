// A shard's own seal holds its size and checksum, so that large files need not be read again.
#include "ownership.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "bert_hpc/data/shard_schema.hpp"
#include "bert_hpc/io/atomic_write.hpp"
#include "bert_hpc/io/checksummed_file.hpp"
#include "bert_hpc/prep/row_stream.hpp"
#include "bert_hpc/tokenize/tokenizer.hpp"

namespace bert_hpc::prep {

namespace fs = std::filesystem;
using core::Error;
using core::ExitCode;

namespace {

constexpr const char* first_line = "bert_hpc_prep output 1";
constexpr std::int64_t max_manifest_bytes = std::int64_t{1} << 28;
constexpr std::int64_t max_text_bytes = std::int64_t{1} << 20;
constexpr std::size_t max_shown_files = 6;

// What version 0.1.0 wrote beside its shards. A folder without manifest that has one of the latter two is a model's.
constexpr std::array<const char*, 4> text_names = {"vocab.txt", "tokenizer_config.json", "prep.toml", "rejects.tsv"};
constexpr std::array<const char*, 2> model_names = {"config.json", "tokenizer.json"};

bool is_shard_name(const std::string& name) {
  constexpr std::string_view extension = ".h5";
  constexpr std::size_t least_digits = 5;
  for (int s = 0; s < split_count; ++s) {
    const std::string begin = std::string(to_string(static_cast<Split>(s))) + '-';
    if (!name.starts_with(begin) || !name.ends_with(extension)) continue;
    const std::string_view digits = std::string_view(name).substr(
        begin.size(), name.size() - std::min(name.size(), begin.size() + extension.size()));
    return digits.size() >= least_digits && digits.find_first_not_of("0123456789") == std::string_view::npos;
  }
  return false;
}

/// A regular file itself, not a link to one: prep makes no links.
bool is_file_itself(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() == fs::file_type::regular;
}

/// "bytes N crc32 X"; "" for a file of a shard's name that is no shard.
std::string fingerprint(const std::string& path, const std::string& name) {
  if (is_shard_name(name)) {
    try {
      return io::seal_text(path);
    } catch (const Error&) {
      return {};
    }
  }
  std::array<char, 16> checksum{};
  std::snprintf(checksum.data(), checksum.size(), "%08x",
                static_cast<unsigned>(io::file_checksum(path, ExitCode::files)));
  return "bytes " + std::to_string(fs::file_size(path)) + " crc32 " + checksum.data();
}

/// What the manifest lists. A killed run may have left two contents of one name: the old and the new.
struct Manifest {
  bool found = false;
  std::set<std::string> lines, names;
};

Manifest read_manifest(const std::string& directory) {
  Manifest manifest;
  const std::string path = directory + "/" + manifest_name;
  if (!is_file_itself(path)) return manifest;
  std::istringstream text(core::read_text_file(path, max_manifest_bytes));
  std::string line;
  manifest.found = std::getline(text, line) && line == first_line;
  while (manifest.found && std::getline(text, line)) {
    const std::size_t blank = line.rfind(' ');
    if (blank == std::string::npos) continue;
    const std::string name = line.substr(blank + 1);
    if (name.find('/') != std::string::npos) continue;
    manifest.lines.insert(line);
    manifest.names.insert(name);
  }
  return manifest;
}

/// The tokenizer_config.json of version 0.1.0, byte for byte but for the values.
bool is_own_tokenizer_config(const std::string& text) {
  const nlohmann::json config = core::parse_json(text);
  if (!config.is_object() || core::json_text(config, 2) + "\n" != text) return false;
  std::set<std::string> keys = {"tokenizer_class", "model_max_length", "pad_token", "unk_token",
                                "cls_token",       "sep_token",        "mask_token"};
  for (const tokenize::TokenizerKey& key : tokenize::find_tokenizer_kind("")->keys) keys.insert(key.hugging_face_name);
  std::set<std::string> found;
  for (const auto& [key, value] : config.items()) found.insert(key);
  return found == keys;
}

/// Has this file of a directory without manifest the form that version 0.1.0 gave it?
bool has_own_form(const std::string& directory, const std::string& name) {
  const std::string path = directory + "/" + name;
  if (is_shard_name(name)) return !fingerprint(path, name).empty();
  if (name == "vocab.txt") {  // any text: it is ours if all beside it is
    return is_file_itself(directory + "/prep.toml") && has_own_form(directory, "prep.toml") &&
           is_file_itself(directory + "/tokenizer_config.json") && has_own_form(directory, "tokenizer_config.json");
  }
  if (name == "rejects.tsv") {
    std::string line;
    return std::getline(std::ifstream(path), line) && line == "file\trow\tline\treason";
  }
  std::error_code ignored;
  if (fs::file_size(path, ignored) > static_cast<std::uintmax_t>(max_text_bytes)) return false;
  const std::string text = core::read_text_file(path, max_text_bytes);
  if (name == "tokenizer_config.json") return is_own_tokenizer_config(text);
  return text.starts_with("[source]\n") && text.find("\n[output]\n") != std::string::npos;
}

/// The files of `directory` that a run would replace or remove, by what is to be done with them.
struct Judged {
  std::vector<std::string> own, foreign, changed;
};

Judged judge(const std::string& directory) {
  const Manifest manifest = read_manifest(directory);
  std::set<std::string> names(text_names.begin(), text_names.end());
  names.insert(model_names.begin(), model_names.end());
  names.insert(manifest.names.begin(), manifest.names.end());
  for (const std::string& shard : shard_names(directory)) names.insert(shard);
  Judged judged;
  for (const std::string& name : names) {
    const std::string path = directory + "/" + name;
    std::error_code ignored;
    if (!fs::exists(fs::symlink_status(path, ignored))) continue;
    const bool listed = manifest.names.contains(name);
    const bool model = std::find(model_names.begin(), model_names.end(), name) != model_names.end();
    bool own = false;
    if (is_file_itself(path)) {
      // prep.toml is a copy of the input that users may edit; nothing but its name is asked for.
      own = listed ? name == "prep.toml" || manifest.lines.contains(manifest_line(path, name))
                   : !manifest.found && !model && has_own_form(directory, name);
    }
    (own ? judged.own : listed ? judged.changed : judged.foreign).push_back(name);
  }
  return judged;
}

std::string names_text(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const std::string& name : names) {
    if (shown.size() < max_shown_files) shown.push_back(core::printable(name, 80));
  }
  const std::size_t more = names.size() - shown.size();
  if (more > 0) shown.push_back(std::to_string(more) + " more");
  return core::listed(shown, "and", false);
}

}  // namespace

std::vector<std::string> shard_names(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code ignored;
  if (!fs::exists(directory, ignored)) return names;
  try {
    for (const auto& entry : fs::directory_iterator(directory)) {
      std::string name = entry.path().filename().string();
      if (is_shard_name(name)) names.push_back(std::move(name));
    }
  } catch (const fs::filesystem_error& error) {
    throw Error(ExitCode::files, directory + ": [output] directory cannot be read: " + error.code().message() + ".");
  }
  std::sort(names.begin(), names.end());
  return names;
}

void refuse_foreign_files(const std::string& directory) {
  const Judged judged = judge(directory);
  std::string text;
  if (!judged.foreign.empty()) {
    text = " holds " + names_text(judged.foreign) + ", which no run of bert_hpc_prep left there";
  }
  if (!judged.changed.empty()) {
    text += (text.empty() ? " holds " : ", and ") + names_text(judged.changed) +
            ", changed after bert_hpc_prep wrote " + (judged.changed.size() == 1 ? "it" : "them");
  }
  if (text.empty()) return;
  throw Error(ExitCode::input,
              "'" + core::printable(directory) + "'" + text +
                  ". Nothing there is replaced: set [output] directory to another directory, or move " +
                  (judged.foreign.size() + judged.changed.size() == 1 ? "this file" : "these files") + " away.");
}

std::vector<std::string> own_files(const std::string& directory) {
  return judge(directory).own;
}

std::string manifest_line(const std::string& path, const std::string& name) {
  return fingerprint(path, name) + " " + name;
}

void write_manifest(const std::string& directory, std::vector<std::string> lines) {
  std::sort(lines.begin(), lines.end());
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  std::string text = std::string(first_line) + "\n";
  for (const std::string& line : lines) text += line + "\n";
  io::write_text_file(directory + "/" + manifest_name, text);
}

}  // namespace bert_hpc::prep
