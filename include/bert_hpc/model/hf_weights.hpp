// Weights of Hugging Face folders into and out of a ParameterStore, bit for bit. A model's weight table states which
// tensor of the Transformers class of the task (BertForSequenceClassification, BertForMaskedLM) holds a parameter, most
// often one of the same name; reading also accepts what other classes and older versions wrote: names without the
// "bert." prefix, gamma and beta for a layer norm's weight and bias, prefixes of wrappers ("module."), buffers, a tied
// decoder that is stored though it need not be.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/layers/heads.hpp"
#include "bert_hpc/model/model_config.hpp"
#include "bert_hpc/model/safetensors.hpp"
#include "bert_hpc/model/weight_table.hpp"

namespace bert_hpc::model {

/// What a load tolerates.
struct LoadOptions {
  /// Name prefixes of parameters that may be missing, e.g. {"classifier.", "bert.pooler."} for a fresh head. They keep
  /// the values they have in the store.
  std::vector<std::string> may_be_missing{};
  /// Parameters of `may_be_missing` whose shape differs (a head for other labels) count as missing; an error otherwise.
  bool replace_other_shapes = false;
  /// Names of parameters of `may_be_missing` that count as missing though the folder has them.
  std::vector<std::string> not_wanted{};
  /// Names of parameters of one row that may have two in the folder: read as the row `minuend` (0 or 1) minus the
  /// other, as a softmax of two outputs is a sigmoid of their difference.
  std::vector<std::string> differences{};
  std::size_t minuend = 1;
  std::string family = "bert";  ///< of the model: ModelConfig::family
  WeightTable weights{};        ///< of the model: ModelPlan::weights
};

struct LoadReport {
  std::vector<std::string> newly_initialised;  ///< names of the store that the folder lacks, in the store's order
  std::vector<std::string> unused;             ///< names of the folder that the model has no parameters for, sorted
  /// Tensors of the folder that new ones replace, as their shapes differ: "NAME (shape …, but …)"; a subset of
  /// `newly_initialised`, in its order.
  std::vector<std::string> replaced;
  std::vector<std::string> left;         ///< LoadOptions::not_wanted that the folder has in the right shape
  std::vector<std::string> differences;  ///< LoadOptions::differences that have two rows in the folder
  std::string wrapper;                   ///< what was removed from the beginning of names: "module."; or empty
  std::string text() const;              ///< for the log: one line each, empty if there is nothing to report
};

/// Prefixes of the parameters that a pretrained encoder often lacks for this head: what a new task initialises.
std::vector<std::string> head_prefixes(const layers::HeadKind& head, const std::string& family = "bert");

/// Reads FOLDER/model.safetensors, or the shards that FOLDER/model.safetensors.index.json lists, into `store`'s
/// values; of a parameter that is a shard, that part. Throws Error(files) with all missing, mis-shaped, non-finite or
/// unreadable tensors at once; where only pytorch_model.bin is there, with the command that converts it. The store may
/// be half filled after a throw.
LoadReport load_hf_weights(const std::filesystem::path& folder, core::ParameterStore& store,
                           const LoadOptions& options = {});

/// The checks of load_hf_weights without reading values (names, shapes, types).
LoadReport check_hf_weights(const std::filesystem::path& folder, const core::ParameterStore& store,
                            const LoadOptions& options = {});
/// The same against specs, where no store has been made.
LoadReport check_hf_weights(const std::filesystem::path& folder, const std::vector<core::ParameterSpec>& specs,
                            const LoadOptions& options = {});

/// Texts of files by name.
using NamedTexts = std::vector<std::pair<std::string, std::string>>;

/// Writes config.json, model.safetensors and `more_files`, such as the tokenizer's, into `folder`, made where it is
/// missing: what AutoModelFor….from_pretrained(folder) reads without a missing or unexpected key. All files are written
/// under temporary names and flushed first, then renamed one after another. Throws Error(files).
void save_hf_folder(const std::filesystem::path& folder, const ModelConfig& config, const layers::HeadKind& head,
                    const core::ParameterStore& store, const NamedTexts& more_files = {});
/// The same from tensors wherever they are.
void save_hf_folder(const std::filesystem::path& folder, const ModelConfig& config, const layers::HeadKind& head,
                    std::vector<TensorToWrite> tensors, const NamedTexts& more_files = {});

}  // namespace bert_hpc::model
