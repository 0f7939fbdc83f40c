#include "bert_hpc/model/peft_adapter.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/json_strict.hpp"
#include "config_reader.hpp"
#include "families/family.hpp"
#include "hf_checkpoint.hpp"
#include "safetensors_writer.hpp"

namespace bert_hpc::model {
namespace {

using core::Error;
using core::ExitCode;
using core::ProblemList;
using nlohmann::json;

constexpr const char *config_name = "adapter_config.json", *tensors_name = "adapter_model.safetensors";
constexpr const char* hash_key = "base_parameters_hash";
constexpr std::string_view before_names = "base_model.model.";
constexpr std::string_view a_end = ".lora_A.weight", b_end = ".lora_B.weight", m_end = ".lora_magnitude_vector";
constexpr std::int64_t max_adapter_config_bytes = std::int64_t{1} << 20;

constexpr std::string_view weight_end = ".weight";

/// The layer of the name of an adapter's parameter; "" of other names.
std::string layer_of(const std::string& name, std::string_view end) {
  return name.ends_with(end) ? name.substr(0, name.size() - end.size()) : std::string();
}

/// The end of the name of an adapter's parameter; "" of other names.
std::string_view adapter_end(const std::string& name) {
  for (const std::string_view end : {a_end, b_end, m_end}) {
    if (name.ends_with(end)) return end;
  }
  return {};
}

/// Name, in files, of a layer with this weight.
std::string stored_layer(const WeightSource& weight) {
  return layer_of(weight.tensor, weight_end);
}

/// Position of a shard among the outputs of the layer that files store.
core::Shard among_outputs(const WeightSource& weight, int dimension, const core::Shard& shard, std::int64_t outputs) {
  const std::int64_t begin = shard.dimension == 0 ? shard.begin : 0,
                     whole = shard.dimension == 0 ? shard.whole : outputs;
  return {dimension, weight.first_row + begin, weight.tensor_rows > 0 ? weight.tensor_rows : whole};
}

std::filesystem::path existing(const std::filesystem::path& folder, const char* name) {
  std::error_code ignored;
  if (std::filesystem::exists(folder / name, ignored)) return folder / name;
  throw Error(ExitCode::files, (folder / name).string() + ": missing. A folder of an adapter holds " + config_name +
                                   " and " + tensors_name + ", as PEFT's save_pretrained() writes them.");
}

void must_be_empty(const json& root, const char* key, ProblemList& problems) {
  const auto found = root.find(key);
  if (found == root.end() || found->is_null() || found->empty()) return;
  problems.add(std::string(key) + " is set, but every layer has the same rank and scale here.");
}

std::string task_type(const std::string& class_suffix) {
  static const std::map<std::string, std::string> types = {{"ForSequenceClassification", "SEQ_CLS"},
                                                           {"ForTokenClassification", "TOKEN_CLS"},
                                                           {"ForQuestionAnswering", "QUESTION_ANS"}};
  const auto found = types.find(class_suffix);
  return found == types.end() ? std::string() : found->second;
}

/// What PEFT calls the module of a parameter of the head: a layer of the base model ("bert.pooler.dense"), or the whole
/// of what a task adds ("classifier" of "classifier.out_proj.weight").
std::string module_of(const std::string& name) {
  const auto all = families();
  const bool in_base =
      std::any_of(all.begin(), all.end(), [&](const Family* family) { return name.starts_with(family->names.base); });
  return name.substr(0, in_base ? name.rfind('.') : name.find('.'));
}

std::string config_text(const AdapterFacts& facts) {
  std::set<std::string> modules;
  for (const std::string& name : facts.trained) modules.insert(module_of(name));
  const LowRankSettings& s = facts.settings;
  // PEFT expects the head of a task in the file, and without a task finds it in the base model.
  const std::string type = modules.empty() ? std::string() : task_type(facts.class_suffix);
  const json root = {{"peft_type", "LORA"},
                     {"task_type", type.empty() ? json(nullptr) : json(type)},
                     {"base_model_name_or_path", facts.base_model},
                     {"r", s.rank},
                     {"lora_alpha", s.alpha},
                     {"lora_dropout", s.dropout},
                     {"use_rslora", s.rank_stabilized},
                     {"use_dora", s.magnitudes},
                     {"target_modules", s.targets},
                     {"modules_to_save", modules.empty() ? json(nullptr) : json(modules)},
                     {"bias", "none"},
                     {"fan_in_fan_out", facts.stored_transposed},
                     {"inference_mode", true},
                     {"init_lora_weights", true}};
  return core::json_text(root, 2) + '\n';
}

}  // namespace

WeightTable peft_table(const std::vector<std::string>& parameters, const WeightTable& table) {
  WeightTable result;
  for (const std::string& name : parameters) {
    const std::string_view end = adapter_end(name);
    WeightSource source = table.source_of(name);
    if (!end.empty()) {
      const WeightSource weight = table.source_of(layer_of(name, end) + std::string(weight_end));
      source = {.tensor = stored_layer(weight) + std::string(end), .transposed = end == b_end};
      if (end == m_end) {
        source.first_row = weight.first_row;
        source.tensor_rows = weight.tensor_rows;
      } else if (end == b_end) {
        source.first_column = weight.first_row;
        source.tensor_columns = weight.tensor_rows;
      }
    }
    source.tensor.insert(0, before_names);
    result.add(name, std::move(source));
  }
  return result;
}

PeftAdapter::PeftAdapter(const std::filesystem::path& folder, const std::string& family)
    : folder_(folder), file_(existing(folder, tensors_name)) {
  read_config(existing(folder, config_name));
  list(family);
}

void PeftAdapter::read_config(const std::filesystem::path& path) {
  const json root = core::read_strict_json(path, max_adapter_config_bytes);
  ProblemList problems;
  ConfigReader reader(root, problems);
  std::string type;
  std::optional<std::int64_t> rank;
  reader.text("peft_type", type);
  if (type != "LORA") problems.add("peft_type is " + core::in_quotes(type) + ", but only \"LORA\" is built in.");
  reader.integer("r", rank);
  if (!rank || *rank < 1) problems.add("r, the rank, must be a number of 1 or more.");
  reader.number("lora_alpha", settings_.alpha);
  reader.number("lora_dropout", settings_.dropout);
  if (settings_.dropout < 0 || settings_.dropout >= 1) problems.add("lora_dropout must be in [0, 1).");
  const auto truth = [&reader](const char* key) {
    const json* const given = reader.find(key);
    if (given == nullptr || given->is_null()) return false;
    return reader.is(key, given->is_boolean(), "true or false", *given) && given->get<bool>();
  };
  settings_.rank_stabilized = truth("use_rslora");
  settings_.magnitudes = truth("use_dora");
  stored_transposed_ = truth("fan_in_fan_out");
  reader.must_be("bias", "none", "the biases of the base model stay as they are.");
  must_be_empty(root, "rank_pattern", problems);
  must_be_empty(root, "alpha_pattern", problems);
  problems.throw_if_any(ExitCode::files, path.string() + ": this adapter is not supported:");
  settings_.rank = *rank;
}

void PeftAdapter::list(const std::string& family) {
  for (const StoredTensor& tensor : file_.tensors()) {
    std::string name = tensor.name;
    if (name.starts_with(before_names)) name.erase(0, before_names.size());
    entries_.push_back({canonical_name(std::move(name), family_of(family)), &tensor});
  }
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  ProblemList problems;
  for (const Entry& entry : entries_) {
    const std::string layer = layer_of(entry.name, a_end), of_b = layer_of(entry.name, b_end),
                      of_m = layer_of(entry.name, m_end);
    if (!layer.empty()) {
      settings_.targets.push_back(layer);
      if (find(layers::adapter_b(layer)) == nullptr) problems.add(layer + " has lora_A, but no lora_B.");
      if (settings_.magnitudes && find(layers::adapter_magnitude(layer)) == nullptr) {
        problems.add(layer + " has no lora_magnitude_vector, but " + config_name + " says use_dora = true.");
      }
      if (entry.tensor->shape.empty() || entry.tensor->shape.front() != settings_.rank) {
        problems.add(core::in_quotes(entry.tensor->name) + " has the shape " + shape_text(entry.tensor->shape) +
                     ", but " + config_name + " says r = " + std::to_string(settings_.rank) + '.');
      }
    } else if (!of_m.empty()) {
      if (!settings_.magnitudes) {
        problems.add(of_m + " has lora_magnitude_vector, but " + config_name + " does not say use_dora = true.");
      } else if (find(layers::adapter_a(of_m)) == nullptr) {
        problems.add(of_m + " has lora_magnitude_vector, but no lora_A.");
      }
    } else if (of_b.empty()) {
      replaced_.push_back(entry.name);
    } else if (find(layers::adapter_a(of_b)) == nullptr) {
      problems.add(of_b + " has lora_B, but no lora_A.");
    }
  }
  if (settings_.targets.empty()) problems.add("It has no tensor of an adapter, whose names end in .lora_A.weight.");
  const auto hash = file_.metadata().find(hash_key);
  if (hash != file_.metadata().end()) {
    std::uint64_t value = 0;
    const char* const end = hash->second.data() + hash->second.size();
    const auto read = std::from_chars(hash->second.data(), end, value, 16);
    if (read.ec == std::errc() && read.ptr == end) base_hash_ = value;
  }
  problems.throw_if_any(ExitCode::files, file_.path().string() + ": cannot be used:");
}

const PeftAdapter::Entry* PeftAdapter::find(const std::string& name) const {
  const auto found =
      std::lower_bound(entries_.begin(), entries_.end(), name,
                       [](const Entry& entry, const std::string& wanted) { return entry.name < wanted; });
  return found != entries_.end() && found->name == name ? &*found : nullptr;
}

void PeftAdapter::leave(const std::vector<std::string>& names) {
  const auto is_left = [&names](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  std::erase_if(replaced_, is_left);
  std::erase_if(entries_, [&is_left](const Entry& entry) { return is_left(entry.name); });
}

void PeftAdapter::check(const std::vector<core::ParameterSpec>& whole_model, const WeightTable& table) const {
  std::map<std::string, std::vector<std::int64_t>> shapes;  // (out, in) of the tensors that files store
  std::set<std::string> transposed;
  for (const core::ParameterSpec& spec : whole_model) {
    if (!spec.copy_of.empty()) continue;
    WeightSource source = table.source_of(spec.name);
    if (source.transposed) transposed.insert(source.tensor);
    source.transposed = false;
    shapes[source.tensor] = stored_shape(source, core::whole_shape(spec.shape, spec.shard));
  }
  ProblemList problems;
  const auto compare = [&](const Entry& entry, const std::vector<std::int64_t>& wanted) {
    if (entry.tensor->shape == wanted) return;
    problems.add(core::in_quotes(entry.tensor->name) + " has the shape " + shape_text(entry.tensor->shape) +
                 ", but the base model and the task make it " + shape_text(wanted) + '.');
  };
  bool any_transposed = false;
  for (const Entry& entry : entries_) {
    const std::string_view end = adapter_end(entry.name);
    const std::string tensor = end.empty() ? entry.name : layer_of(entry.name, end) + std::string(weight_end);
    const auto shape = shapes.find(tensor);
    any_transposed = any_transposed || transposed.contains(tensor);
    if (shape == shapes.end()) {
      problems.add(core::in_quotes(entry.tensor->name) + " has no counterpart in the model.");
    } else if (end == a_end) {
      compare(entry, {settings_.rank, shape->second.back()});
    } else if (end == b_end) {
      compare(entry, {shape->second.front(), settings_.rank});
    } else if (end == m_end) {
      compare(entry, {shape->second.front()});
    } else {
      compare(entry, shape->second);
    }
  }
  if (stored_transposed_ && !any_transposed) {
    problems.add(std::string(config_name) + " says fan_in_fan_out = true, but no layer here stores its weight so.");
  }
  problems.throw_if_any(ExitCode::files, folder_.string() + ": the adapter does not fit the model:");
}

std::vector<float> PeftAdapter::values(const Entry& entry) const {
  std::vector<float> values(static_cast<std::size_t>(entry.tensor->elements));
  file_.read(*entry.tensor, values);
  return values;
}

/// b̂ (rank, out) of the file's (out, rank).
std::vector<float> PeftAdapter::transposed(const Entry& entry) const {
  const std::vector<float> stored = values(entry);
  const auto rank = static_cast<std::size_t>(settings_.rank), out = stored.size() / rank;
  std::vector<float> result(stored.size());
  for (std::size_t o = 0; o < out; ++o) {
    for (std::size_t k = 0; k < rank; ++k) result[k * out + o] = stored[o * rank + k];
  }
  return result;
}

void PeftAdapter::load_head(const core::ParameterSlice& slice, const WeightSource& source,
                            std::span<float> target) const {
  const Entry* const entry = find(source.tensor);
  if (entry == nullptr) return;
  core::require(source.is_whole(), "adapter: the head's parameters are tensors of their own");
  core::copy_to_device<float>(core::take_shard(slice.shape, slice.shard, values(*entry)), target);
}

/// Layers that files store together all get the a of the file.
void PeftAdapter::load_adapter(const core::ParameterSlice& slice, const WeightTable& table,
                               std::span<float> target) const {
  const std::string_view end = adapter_end(slice.name);
  const WeightSource weight = table.source_of(layer_of(slice.name, end) + std::string(weight_end));
  const Entry* const entry = find(stored_layer(weight) + std::string(end));
  if (entry == nullptr) return;
  if (end == a_end) {
    core::copy_to_device<float>(core::take_shard(slice.shape, slice.shard, values(*entry)), target);
  } else if (end == b_end) {
    const core::Shard outputs =
        among_outputs(weight, 1, {slice.shard.dimension - 1, slice.shard.begin, slice.shard.whole}, slice.shape[1]);
    core::copy_to_device<float>(core::take_shard(slice.shape, outputs, transposed(*entry)), target);
  } else {
    const core::Shard outputs = among_outputs(weight, 0, slice.shard, slice.shape[0]);
    core::copy_to_device<float>(core::take_shard(slice.shape, outputs, values(*entry)), target);
  }
}

/// Adds the adapter to a weight of which the slice may be some rows or columns.
void PeftAdapter::merge(const core::ParameterSlice& slice, const WeightSource& source, std::span<float> target) const {
  const std::string layer = stored_layer(source);
  const Entry* const a = find(layers::adapter_a(layer));
  if (layer.empty() || a == nullptr) return;
  const bool splits_columns = slice.shard.dimension == 1;
  core::require(!settings_.magnitudes || !splits_columns, "adapter: norms of rows need whole rows");
  const core::Shard inputs{1, slice.shard.begin, slice.shard.whole};
  const std::int64_t rank = settings_.rank;
  const std::vector<float> of_a =
      core::take_shard({rank, slice.columns}, splits_columns ? inputs : core::Shard(), values(*a));
  const std::vector<float> of_b =
      core::take_shard({rank, slice.rows}, among_outputs(source, 1, slice.shard, slice.rows),
                       transposed(*find(layers::adapter_b(layer))));
  std::vector<float> staging;
  const std::span<const float> on_host = core::on_host<float>(target, staging);
  std::vector<float> merged(on_host.begin(), on_host.end());
  const std::vector<float> of_m =
      settings_.magnitudes ? core::take_shard({slice.rows}, among_outputs(source, 0, slice.shard, slice.rows),
                                              values(*find(layers::adapter_magnitude(layer))))
                           : std::vector<float>();
  merge_adapter({.scale = static_cast<float>(settings_.scale()),
                 .a = {of_a.data(), rank, slice.columns},
                 .b = {of_b.data(), rank, slice.rows},
                 .magnitudes = settings_.magnitudes ? of_m.data() : nullptr},
                {merged.data(), slice.rows, slice.columns});
  core::copy_to_device<float>(merged, target);
}

void PeftAdapter::load(core::ParameterStore& store, const WeightTable& table) const {
  const std::span<float> all = store.change_values();
  std::set<std::string> names;
  for (const core::ParameterSlice& slice : store.slices()) names.insert(slice.name);
  for (const core::ParameterSlice& slice : store.slices()) {
    const std::span<float> target =
        all.subspan(static_cast<std::size_t>(slice.offset), static_cast<std::size_t>(slice.size));
    if (slice.adapter) {
      load_adapter(slice, table, target);
      continue;
    }
    const WeightSource source = table.source_of(slice.name);
    load_head(slice, source, target);
    if (!names.contains(layers::adapter_b(layer_of(slice.name, weight_end)))) merge(slice, source, target);
  }
}

void save_peft_adapter(const std::filesystem::path& folder, const AdapterFacts& facts,
                       std::vector<TensorToWrite> tensors) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) throw Error(ExitCode::files, folder.string() + ": cannot be created (" + problem.message() + ").");
  std::array<char, 17> hash{};
  const auto written = std::to_chars(hash.data(), hash.data() + hash.size(), facts.base_hash, 16);
  std::vector<TemporaryFile> files;
  files.reserve(3);
  files.emplace_back(folder / "config.json").write(facts.config);
  write_safetensors_into(files.emplace_back(folder / tensors_name), std::move(tensors),
                         {{"format", "pt"}, {hash_key, std::string(hash.data(), written.ptr)}});
  files.emplace_back(folder / config_name).write(config_text(facts));  // last: a folder that has it is whole
  for (TemporaryFile& file : files) file.finish();
  for (TemporaryFile& file : files) file.publish();
}

}  // namespace bert_hpc::model
