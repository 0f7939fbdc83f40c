// The tensors of a Hugging Face folder under the names this program uses: which file holds what, one file or shards.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/shard.hpp"
#include "bert_hpc/model/safetensors.hpp"
#include "families/family.hpp"

namespace bert_hpc::model {

/// Prefix that a wrapper of the model (DataParallel, torch.compile, Lightning) put before a name: "module.",
/// "_orig_mod.", "model." or several of them; else empty. Names of the family's base are no wrapper's.
std::string_view wrapper_prefix(std::string_view name, const Family& family);

/// Today's name, in Transformers' classes of this family, of a name in a file, without a wrapper's prefix.
std::string canonical_name(std::string name, const Family& family);

/// Throws Error(files): there is no such folder of a model.
[[noreturn]] void fail_without_folder(const std::filesystem::path& folder);

/// True for buffers, which hold no weights.
bool is_buffer(const std::string& name, const Family& family);

class HfCheckpoint {
 public:
  struct Entry {
    std::size_t file = 0;
    const StoredTensor* tensor = nullptr;
  };

  /// Opens and checks every file. Throws Error(files).
  HfCheckpoint(const std::filesystem::path& folder, const Family& family);
  HfCheckpoint(const HfCheckpoint&) = delete;
  HfCheckpoint& operator=(const HfCheckpoint&) = delete;

  /// By canonical name, buffers left out.
  const std::map<std::string, Entry>& entries() const { return entries_; }
  const Entry* find(const std::string& canonical) const;
  const std::string& wrapper() const { return wrapper_; }  ///< wrapper_prefix() of the first name with one
  std::string describe(const Entry& entry) const;          ///< file and tensor, for messages
  void read(const Entry& entry, std::span<float> out) const { files_[entry.file].read(*entry.tensor, out); }
  void read(const Entry& entry, const core::ShardRuns& runs, std::span<float> out) const;

 private:
  void open_shards(const std::filesystem::path& folder, const std::filesystem::path& index);
  void add(std::size_t file, const StoredTensor& tensor, core::ProblemList& problems);

  const Family& family_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Entry> entries_;
  std::string wrapper_;
};

}  // namespace bert_hpc::model
