// What a manifest must hold for its checkpoint to be read: pure checks of its contents.
#include <algorithm>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/state_blocks.hpp"
#include "bert_hpc/core/text.hpp"
#include "checkpoint_manifest.hpp"

namespace bert_hpc::io {
namespace detail {

void refuse_manifest(const std::string& path, const std::string& why) {
  throw core::Error(core::ExitCode::files, "Cannot use '" + path + "' as a manifest of a checkpoint: " + why + '.');
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t extent : shape) {
    if (!text.empty()) text += ',';
    text += std::to_string(extent);
  }
  return text;
}

}  // namespace detail

namespace {

constexpr std::int64_t most_elements = std::int64_t{1} << 46;

using detail::refuse_manifest;

/// True if extents are at least 1 and their product is at most most_elements.
bool is_shape(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 1 || extent > most_elements / elements) return false;
    elements *= extent;
  }
  return true;
}

/// Checks that every piece lies in its tensor and that together they cover each element exactly once.
void check_pieces(const CheckpointManifest& manifest, const std::string& path) {
  std::vector<std::vector<core::TensorPiece>> of_tensor(manifest.tensors.size());
  for (const CheckpointManifest::File& file : manifest.files) {
    for (const core::TensorPiece& piece : file.pieces) {
      const bool known = piece.tensor >= 0 && piece.tensor < static_cast<std::int64_t>(of_tensor.size());
      if (!known) refuse_manifest(path, "a piece is of a tensor that is not in the list");
      const std::int64_t size = manifest.tensors[static_cast<std::size_t>(piece.tensor)].elements();
      const bool fits = piece.first >= 0 && piece.first < size && piece.length >= 1 && piece.length <= size &&
                        piece.count >= 1 && piece.count <= size && piece.stride >= piece.length &&
                        piece.stride <= size && piece.first <= size - piece.length &&
                        (piece.count - 1) <= (size - piece.length - piece.first) / piece.stride;
      if (!fits) refuse_manifest(path, "a piece is not inside its tensor");
      of_tensor[static_cast<std::size_t>(piece.tensor)].push_back(piece);
    }
  }
  for (std::size_t i = 0; i < of_tensor.size(); ++i) {
    const core::WholeTensor& tensor = manifest.tensors[i];
    if (!core::cover_once(tensor.elements(), of_tensor[i])) {
      refuse_manifest(path, "it does not hold '" + core::printable(tensor.name) + "' exactly once");
    }
  }
}

void check_quantities(const std::vector<QuantityKind>& quantities, const std::string& path) {
  if (quantities.empty() || quantities.front() != QuantityKind{parameters_name}) {
    refuse_manifest(path, "it has no list of quantities");
  }
  for (const QuantityKind& quantity : quantities) {
    const std::string& name = quantity.name;
    const auto same = [&name](const QuantityKind& other) { return other.name == name; };
    const bool plain = !name.empty() && name != phases_name &&
                       name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
    if (!plain || std::count_if(quantities.begin(), quantities.end(), same) > 1) {
      refuse_manifest(path, "its list of quantities is wrong");
    }
  }
}

}  // namespace

bool CheckpointManifest::holds(std::size_t quantity, std::int64_t tensor) const {
  const core::WholeTensor& whole = tensors[static_cast<std::size_t>(tensor)];
  if (quantity == 0) return true;
  const QuantityForm form = quantities[quantity].form;
  if (!whole.trainable || form == QuantityForm::numbers) return whole.trainable;
  return core::state_blocks::are_kept(whole.elements()) == (form != QuantityForm::small_numbers);
}

void require_sound(const CheckpointManifest& manifest, const std::string& path) {
  if (manifest.step < 0) refuse_manifest(path, "its step is negative");
  for (const core::WholeTensor& tensor : manifest.tensors) {
    if (!is_shape(tensor.shape)) {
      refuse_manifest(path, core::listed({detail::shape_text(tensor.shape)}, "") + " is no shape of a tensor");
    }
  }
  for (std::size_t f = 1; f < manifest.files.size(); ++f) {
    if (manifest.files[f].rank <= manifest.files[f - 1].rank)
      refuse_manifest(path, "its files are not in the order of ranks");
  }
  check_quantities(manifest.quantities, path);
  check_pieces(manifest, path);
}

}  // namespace bert_hpc::io
