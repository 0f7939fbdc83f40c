// Writes Hugging Face folders.
#include <algorithm>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/model/hf_weights.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/model_plan.hpp"
#include "safetensors_writer.hpp"

namespace bert_hpc::model {

using core::Error;
using core::ExitCode;

void save_hf_folder(const std::filesystem::path& folder, const ModelConfig& config, const layers::HeadKind& head,
                    const core::ParameterStore& store, const NamedTexts& more_files) {
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
  save_hf_folder(folder, config, head, std::move(tensors), more_files);
}

void save_hf_folder(const std::filesystem::path& folder, const ModelConfig& config, const layers::HeadKind& head,
                    std::vector<TensorToWrite> tensors, const NamedTexts& more_files) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) throw Error(ExitCode::files, folder.string() + ": cannot be created (" + problem.message() + ").");
  std::vector<TemporaryFile> files;
  const auto write_text = [&files, &folder](const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder / name;
    std::error_code failure;
    std::filesystem::create_directories(path.parent_path(), failure);  // else opening the file fails
    files.emplace_back(path).write(text);
  };
  for (const auto& [name, text] : more_files) write_text(name, text);
  write_safetensors_into(files.emplace_back(folder / "model.safetensors"), std::move(tensors), {{"format", "pt"}});
  write_text("config.json", hf_config_text(config, head));  // last: a folder with a config.json is whole
  for (TemporaryFile& file : files) file.finish();
  for (TemporaryFile& file : files) file.publish();
}

}  // namespace bert_hpc::model
