// Folders of low-rank adapters as PEFT, Hugging Face's library of adapters, reads and writes them:
// adapter_config.json, and adapter_model.safetensors with the adapters and the head. What we write has a config.json
// too, with the names of labels, which PEFT ignores.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/model/low_rank.hpp"
#include "bert_hpc/model/safetensors.hpp"

namespace bert_hpc::model {

class PeftAdapter {
 public:
  /// Opens and checks both files. Throws Error(files) with all that is wrong or not supported.
  PeftAdapter(const std::filesystem::path& folder, const std::string& family);

  /// Its targets are the whole names, in files, of the layers that have an adapter.
  const LowRankSettings& settings() const { return settings_; }
  /// The hash of the base model's parameters; none if another program wrote the adapter.
  std::optional<std::uint64_t> base_hash() const { return base_hash_; }
  /// Names of the model's own parameters that it has: those of the head.
  const std::vector<std::string>& replaced() const { return replaced_; }
  /// Forgets such parameters, as if the folder lacked them.
  void leave(const std::vector<std::string>& names);

  /// Throws Error(files) with every tensor that has no counterpart, or one of another shape, in a model of these
  /// parameters, which has the adapters or not. `table` is the model's.
  void check(const std::vector<core::ParameterSpec>& whole_model, const WeightTable& table = {}) const;
  /// Gives parameters of the store the values of the folder, if it has them; a layer without an adapter in the store
  /// gets the folder's added to its weight. Call check() first.
  void load(core::ParameterStore& store, const WeightTable& table = {}) const;

 private:
  struct Entry {
    std::string name;  // ours
    const StoredTensor* tensor;
  };
  void read_config(const std::filesystem::path& path);
  void list(const std::string& family);
  const Entry* find(const std::string& name) const;
  std::vector<float> values(const Entry& entry) const;
  std::vector<float> transposed(const Entry& entry) const;
  void load_head(const core::ParameterSlice& slice, const WeightSource& source, std::span<float> target) const;
  void load_adapter(const core::ParameterSlice& slice, const WeightTable& table, std::span<float> target) const;
  void merge(const core::ParameterSlice& slice, const WeightSource& source, std::span<float> target) const;

  std::filesystem::path folder_;
  SafetensorsFile file_;
  LowRankSettings settings_;
  bool stored_transposed_ = false;  // adapter_config.json says that the weights beside the adapters are
  std::optional<std::uint64_t> base_hash_;
  std::vector<Entry> entries_;
  std::vector<std::string> replaced_;
};

/// What a folder says of its adapter.
struct AdapterFacts {
  std::string base_model;  ///< the folder of the pretrained model, as the input names it
  std::uint64_t base_hash = 0;
  LowRankSettings settings;          ///< targets as target_modules() gives them
  bool stored_transposed = false;    ///< files store the targets' weights transposed
  std::vector<std::string> trained;  ///< names of the head's parameters that are in `tensors`
  const char* class_suffix = "";     ///< of Transformers' class: "ForSequenceClassification"
  std::string config;                ///< the text of config.json
};

/// Tensors of PEFT's file that hold these parameters of a model: adapters, whose b̂ is stored as (out, rank), and those
/// of the head. `table` is the model's.
WeightTable peft_table(const std::vector<std::string>& parameters, const WeightTable& table);

/// Writes FOLDER, made where it is missing; as save_hf_folder() does. Tensors have their names and shapes in PEFT's
/// file. Throws Error(files).
void save_peft_adapter(const std::filesystem::path& folder, const AdapterFacts& facts,
                       std::vector<TensorToWrite> tensors);

}  // namespace bert_hpc::model
