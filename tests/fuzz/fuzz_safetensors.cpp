// model.safetensors: headers that lie about types, shapes and offsets; all tensors of modest size are read.
#include <vector>

#include "bert_hpc/model/safetensors.hpp"
#include "fuzz.hpp"

using namespace bert_hpc;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::File file(fuzz::text(data, size));
  fuzz::accepts([&] {
    const model::SafetensorsFile tensors(file.path());
    for (const model::StoredTensor& tensor : tensors.tensors()) {
      fuzz::require(tensor.begin >= 0 && tensor.begin <= tensor.end && tensor.end <= static_cast<std::int64_t>(size),
                    "tensors lie in the file");
      fuzz::require(tensors.find(tensor.name) == &tensor, "names are found");
      fuzz::require(tensor.elements >= 0 && tensor.elements <= static_cast<std::int64_t>(size) * 8,
                    "a tensor has no more elements than the file could hold");
      std::vector<float> values(static_cast<std::size_t>(tensor.elements));
      std::vector<double> wide(values.size());
      std::vector<std::int64_t> whole(values.size());
      fuzz::accepts([&] { tensors.read(tensor, values); });
      fuzz::accepts([&] { tensors.read(tensor, wide); });
      fuzz::accepts([&] { tensors.read(tensor, whole); });
    }
  });
  return 0;
}
