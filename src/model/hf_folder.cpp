// Writes Hugging Face folders, and copies the tokenizer's files into them.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/model/hf_weights.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/model_plan.hpp"
#include "safetensors_writer.hpp"
#include "strict_json.hpp"

namespace bert_hpc::model {
namespace {

using core::Error;
using core::ExitCode;

constexpr std::int64_t longest_tokenizer_file = std::int64_t{256} << 20;

/// What is copied into a model's folder, which people share.
constexpr std::array tokenizer_files = {"vocab.txt",  "tokenizer_config.json",   "tokenizer.json",   "vocab.json",
                                        "merges.txt", "special_tokens_map.json", "added_tokens.json"};

/// Whether each line is a pair of tokens, but for a first one with a version.
bool is_merges(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  for (bool first = true; std::getline(lines, line); first = false) {
    if ((first && line.starts_with("#version")) || line.empty() || line == "\r") continue;
    const std::size_t blank = line.find(' ');
    if (blank == 0 || blank + 1 >= line.size() || line.find(' ', blank + 1) != std::string::npos) return false;
  }
  return !text.empty();
}

/// The tokens around a text in vocab.txt of BERT, MPNet and ESM.
constexpr std::pair<const char*, const char*> text_ends[] = {{"[CLS]", "[SEP]"}, {"<s>", "</s>"}, {"<cls>", "<eos>"}};

bool is_vocabulary(const std::string& text) {
  const auto has = [&text](const char* token) { return text.find(token) != std::string::npos; };
  return std::any_of(std::begin(text_ends), std::end(text_ends),
                     [&](const auto& ends) { return has(ends.first) && has(ends.second); });
}

/// The text of one of them. A name may be a link (Hugging Face's caches hold only links), perhaps to a private file:
/// only JSON, lists of merges, and a vocabulary with the special tokens of a family, are copied.
std::string tokenizer_file(const std::filesystem::path& path) {
  std::string text = core::read_text_file(path.string(), longest_tokenizer_file);
  if (path.extension() == ".json") {
    parse_strict_json(text, path.string());
  } else if (path.filename() == "merges.txt") {
    if (!is_merges(text)) throw Error(ExitCode::files, path.string() + ": is no list of merges, a pair a line.");
  } else if (!is_vocabulary(text)) {
    throw Error(ExitCode::files, path.string() +
                                     ": is not a vocabulary of BERT, MPNet or ESM: it has neither [CLS] and "
                                     "[SEP], nor <s> and </s>, nor <cls> and <eos>.");
  }
  return text;
}

}  // namespace

void save_hf_folder(const std::filesystem::path& folder, const ModelConfig& config, const layers::HeadKind& head,
                    const core::ParameterStore& store, const std::filesystem::path& tokenizer_folder) {
  std::vector<TensorToWrite> tensors;
  std::vector<float> staging;
  for (const core::ParameterSlice& slice : store.slices()) {
    if (!slice.copy_of.empty()) continue;
    const std::span<const float> values =
        store.values().subspan(static_cast<std::size_t>(slice.offset), static_cast<std::size_t>(slice.size));
    TensorToWrite tensor{.name = slice.name, .shape = slice.shape};
    tensor.fetch = [values, &staging](std::int64_t begin) {
      return core::on_host(values, staging).subspan(static_cast<std::size_t>(begin));
    };
    tensors.push_back(std::move(tensor));
  }
  const WeightTable table = make_plan(config, head, config.num_labels()).weights;
  std::sort(tensors.begin(), tensors.end(),
            [&table](const TensorToWrite& a, const TensorToWrite& b) { return table.is_before(a.name, b.name); });
  tensors = as_stored(std::move(tensors), table);
  save_hf_folder(folder, config, head, std::move(tensors), tokenizer_folder);
}

void check_tokenizer_files(const std::filesystem::path& folder) {
  std::error_code problem;
  for (const char* name : tokenizer_files) {
    if (std::filesystem::exists(folder / name, problem)) tokenizer_file(folder / name);
  }
}

void save_hf_folder(const std::filesystem::path& folder, const ModelConfig& config, const layers::HeadKind& head,
                    std::vector<TensorToWrite> tensors, const std::filesystem::path& tokenizer_folder,
                    const NamedTexts& more_files) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) throw Error(ExitCode::files, folder.string() + ": cannot be created (" + problem.message() + ").");
  std::vector<AsideFile> files;
  const auto write_text = [&files, &folder](const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder / name;
    std::error_code failure;
    std::filesystem::create_directories(path.parent_path(), failure);  // else opening the file fails
    files.emplace_back(path).write(text);
  };
  const bool copies = !tokenizer_folder.empty() && !std::filesystem::equivalent(folder, tokenizer_folder, problem);
  for (const char* name : tokenizer_files) {
    const std::filesystem::path source = tokenizer_folder / name;
    if (copies && std::filesystem::exists(source, problem)) {
      write_text(name, tokenizer_file(source));
    }
  }
  for (const auto& [name, text] : more_files) write_text(name, text);
  write_safetensors_into(files.emplace_back(folder / "model.safetensors"), std::move(tensors), {{"format", "pt"}});
  write_text("config.json", hf_config_text(config, head));  // last: a folder with a config.json is whole
  for (AsideFile& file : files) file.finish();
  for (AsideFile& file : files) file.publish();
}

}  // namespace bert_hpc::model
