#include "hf_checkpoint.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/json_strict.hpp"

namespace bert_hpc::model {
namespace {

using core::Error;
using core::ExitCode;
using core::ProblemList;

constexpr std::int64_t longest_index = std::int64_t{32} << 20;

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

void replace_end(std::string& name, const std::string& end, const std::string& by) {
  if (name.ends_with(end)) name.replace(name.size() - end.size(), end.size(), by);
}

[[noreturn]] void fail_without_weights(const std::filesystem::path& folder) {
  const std::string at = folder.string();
  if (!is_there(folder)) fail_without_folder(folder);
  if (is_there(folder / "pytorch_model.bin")) {
    throw Error(ExitCode::files,
                at +
                    ": holds pytorch_model.bin but no model.safetensors. The older form is Python's own object format "
                    "and is not read here; convert it once, where PyTorch is installed, with\n"
                    "    python3 -c \"import torch, safetensors.torch as s; w = torch.load('" +
                    at + "/pytorch_model.bin', map_location='cpu', weights_only=True); s.save_file({k: v.clone()" +
                    ".contiguous() for k, v in w.items()}, '" + at + "/model.safetensors', {'format': 'pt'})\"");
  }
  if (is_there(folder / "pytorch_model.bin.index.json")) {
    throw Error(ExitCode::files,
                at +
                    ": holds pytorch_model.bin in shards but no model.safetensors. Convert it once, where Transformers "
                    "is installed: AutoModel….from_pretrained('" +
                    at + "').save_pretrained(NEW_FOLDER), and give the new folder.");
  }
  throw Error(ExitCode::files, at + ": holds neither model.safetensors nor model.safetensors.index.json, one of which "
                                    "a pretrained model needs.");
}

}  // namespace

void fail_without_folder(const std::filesystem::path& folder) {
  throw Error(ExitCode::files, "there is no folder " + folder.string() +
                                   ". A pretrained model is a folder on this machine that holds config.json and "
                                   "model.safetensors. Nothing is downloaded: \"hf download REPOSITORY --local-dir "
                                   "FOLDER\" does.");
}

std::string_view wrapper_prefix(std::string_view name, const Family& family) {
  std::string_view rest = name;
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view wrapper : {"module.", "_orig_mod.", "model."}) {
      if (!rest.starts_with(wrapper) || rest.starts_with(family.names.base)) continue;
      rest.remove_prefix(wrapper.size());
      found = true;
    }
  }
  return name.substr(0, name.size() - rest.size());
}

std::string canonical_name(std::string name, const Family& family) {
  name.erase(0, wrapper_prefix(name, family).size());
  replace_end(name, "LayerNorm.gamma", "LayerNorm.weight");
  replace_end(name, "LayerNorm.beta", "LayerNorm.bias");
  for (const std::string& start : family.names.base_parts) {
    if (name.starts_with(start)) return family.names.base + name;
  }
  return name;
}

bool is_buffer(const std::string& name, const Family& family) {
  const std::vector<std::string>& ends = family.names.buffers;
  return std::any_of(ends.begin(), ends.end(), [&name](const std::string& end) { return name.ends_with(end); });
}

HfCheckpoint::HfCheckpoint(const std::filesystem::path& folder, const Family& family) : family_(family) {
  const std::filesystem::path single = folder / "model.safetensors", index = folder / "model.safetensors.index.json";
  if (is_there(single)) {
    files_.emplace_back(single);
  } else if (is_there(index)) {
    open_shards(folder, index);
  } else {
    fail_without_weights(folder);
  }
  ProblemList problems;
  for (std::size_t file = 0; file < files_.size(); ++file) {
    for (const StoredTensor& tensor : files_[file].tensors()) add(file, tensor, problems);
  }
  problems.throw_if_any(ExitCode::files, folder.string() + ": the same weights are stored twice:");
}

void HfCheckpoint::add(std::size_t file, const StoredTensor& tensor, ProblemList& problems) {
  if (is_buffer(tensor.name, family_)) return;
  if (wrapper_.empty()) wrapper_ = wrapper_prefix(tensor.name, family_);
  const Entry entry{.file = file, .tensor = &tensor};
  const auto [known, added] = entries_.emplace(canonical_name(tensor.name, family_), entry);
  if (!added) problems.add(describe(known->second) + " and " + describe(entry) + " are both " + known->first + ".");
}

// The index maps each tensor to its file. Only what it says is believed: a shard that lacks a tensor is an error.
void HfCheckpoint::open_shards(const std::filesystem::path& folder, const std::filesystem::path& index) {
  const nlohmann::json root = core::read_strict_json(index, longest_index);
  const auto map = root.find("weight_map");
  if (map == root.end() || !map->is_object() || map->empty()) {
    throw Error(ExitCode::files, index.string() + ": needs a \"weight_map\" that names the file of every tensor.");
  }
  std::map<std::string, std::size_t> shards;
  ProblemList problems;
  for (const auto& [name, value] : map->items()) {
    const std::string file = value.is_string() ? value.get<std::string>() : std::string();
    if (!file.ends_with(".safetensors") || file.find('/') != std::string::npos) {
      problems.add("the file of tensor " + core::in_quotes(name) + " must be a name in the same folder that ends in " +
                   ".safetensors, but is " + (value.is_string() ? core::in_quotes(file) : value.type_name()) + ".");
      continue;
    }
    if (shards.contains(file)) continue;
    if (!is_there(folder / file)) {
      problems.add("the shard " + core::in_quotes(file) + " is missing: download it too.");
      shards.emplace(file, map->size());
      continue;
    }
    shards.emplace(file, files_.size());
    files_.emplace_back(folder / file);
  }
  problems.throw_if_any(ExitCode::files, index.string() + ": the shards it names cannot be used:");
  for (const auto& [name, value] : map->items()) {
    const SafetensorsFile& file = files_[shards.at(value.get<std::string>())];
    if (file.find(name) == nullptr)
      problems.add(file.path().filename().string() + " lacks " + core::in_quotes(name) + ".");
  }
  problems.throw_if_any(ExitCode::files, index.string() + ": the shards do not hold what it says:");
}

const HfCheckpoint::Entry* HfCheckpoint::find(const std::string& canonical) const {
  const auto found = entries_.find(canonical);
  return found == entries_.end() ? nullptr : &found->second;
}

void HfCheckpoint::read(const Entry& entry, const core::ShardRuns& runs, std::span<float> out) const {
  const SafetensorsFile& file = files_[entry.file];
  if (runs.count == 1) return file.read_part(*entry.tensor, runs.first, out);
  // Whole rows at a time, of which the shard's columns are kept: fewer and longer reads than one for each row.
  const std::int64_t rows_at_once = std::max<std::int64_t>(1, (std::int64_t{1} << 20) / runs.stride);
  const std::int64_t first_row = runs.first / runs.stride, first_column = runs.first % runs.stride;
  std::vector<float> rows(static_cast<std::size_t>(std::min(rows_at_once, runs.count) * runs.stride));
  for (std::int64_t row = 0; row < runs.count; row += rows_at_once) {
    const std::int64_t count = std::min(rows_at_once, runs.count - row);
    file.read_part(*entry.tensor, (first_row + row) * runs.stride,
                   std::span(rows).first(static_cast<std::size_t>(count * runs.stride)));
    for (std::int64_t i = 0; i < count; ++i) {
      std::copy_n(rows.begin() + i * runs.stride + first_column, runs.length, out.begin() + (row + i) * runs.length);
    }
  }
}

std::string HfCheckpoint::describe(const Entry& entry) const {
  return core::in_quotes(entry.tensor->name) + " in " + files_[entry.file].path().filename().string();
}

}  // namespace bert_hpc::model
