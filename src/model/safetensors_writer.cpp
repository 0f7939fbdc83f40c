#include "safetensors_writer.hpp"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/json_strict.hpp"
#include "bert_hpc/core/shard.hpp"

namespace bert_hpc::model {
namespace {

void write_values(TemporaryFile& file, const TensorToWrite& tensor) {
  if (!tensor.fetch) return file.write(tensor.values.data(), tensor.values.size_bytes());
  for (std::int64_t begin = 0; begin < tensor.elements();) {
    const std::span<const float> piece = tensor.fetch(begin);
    begin += static_cast<std::int64_t>(piece.size());
    core::require(!piece.empty() && begin <= tensor.elements(), "safetensors: a piece of another size than its tensor");
    file.write(piece.data(), piece.size_bytes());
  }
}

}  // namespace

std::int64_t TensorToWrite::elements() const {
  return core::elements_of(shape);
}

void write_safetensors_into(TemporaryFile& file, std::vector<TensorToWrite> tensors,
                            const std::map<std::string, std::string>& metadata) {
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorToWrite& a, const TensorToWrite& b) { return a.name < b.name; });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();  // fields in the order that others write them
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    core::require(tensor.fetch || tensor.elements() == static_cast<std::int64_t>(tensor.values.size()),
                  "safetensors: shape and values differ");
    core::require(!header.contains(tensor.name), "safetensors: two tensors of one name");
    const std::uint64_t end = offset + static_cast<std::uint64_t>(tensor.elements()) * sizeof(float);
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = core::json_text(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begins aligned to 8 bytes
  const std::uint64_t length = text.size();
  file.write(&length, sizeof length);
  file.write(text);
  for (const TensorToWrite& tensor : tensors) write_values(file, tensor);
}

}  // namespace bert_hpc::model
