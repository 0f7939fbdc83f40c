#include "checkpoint_layout.hpp"

#include <algorithm>
#include <span>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/state_blocks.hpp"
#include "bert_hpc/io/hdf5/hdf5.hpp"

namespace bert_hpc::io {
namespace {

using core::ExitCode;

void check_identity(const Hdf5File& file, const CheckpointManifest& manifest, int rank) {
  if (file.text_attribute("/", "schema") == checkpoint_schema && file.text_attribute("/", "id") == manifest.id &&
      file.integer_attribute("/", "step") == manifest.step && file.integer_attribute("/", "rank") == rank) {
    return;
  }
  throw core::Error(ExitCode::files,
                    "Cannot use '" + file.path() + "': it belongs to another checkpoint than its manifest.");
}

bool has_codes(const CheckpointManifest& manifest) {
  return std::any_of(manifest.quantities.begin(), manifest.quantities.end(),
                     [](const QuantityKind& quantity) { return quantity.form == QuantityForm::codes; });
}

std::vector<PieceBegins> begins_in(const CheckpointManifest& manifest, const CheckpointManifest::File& entry,
                                   std::span<const std::uint8_t> phases) {
  std::vector<PieceBegins> begins(1);
  for (std::size_t p = 0; p < entry.pieces.size(); ++p) {
    const std::int64_t elements = entry.pieces[p].elements();
    begins.back().phase = phases.empty() ? 0 : phases[p];
    PieceBegins next = begins.back();
    next.parameters += elements;
    for (std::size_t q = 1; q < manifest.quantities.size(); ++q) {
      const QuantityForm form = manifest.quantities[q].form;
      const auto f = static_cast<std::size_t>(form);
      if (!manifest.holds(q, entry.pieces[p].tensor)) continue;
      next.of_form[f] =
          begins.back().of_form[f] +
          (form == QuantityForm::scales ? core::state_blocks::count(elements, begins.back().phase) : elements);
    }
    begins.push_back(next);
  }
  return begins;
}

/// The file offset of a dataset of `count` elements of type T. Throws Error(files) if it is another one.
template <class T>
std::int64_t place_of(const Hdf5File& file, const std::string& name, std::int64_t count) {
  const Dataset dataset = file.dataset(name);
  dataset.expect<T>(1);
  if (dataset.info().element_bytes != static_cast<std::int64_t>(sizeof(T)) || dataset.info().elements() != count) {
    throw core::Error(ExitCode::files, "Cannot use '" + file.path() + "': '" + dataset.name() + "' is " +
                                           dataset.info().type_name() + ' ' + dataset.info().shape_text() +
                                           ", not as the manifest says.");
  }
  return dataset.file_offset();
}

std::vector<std::uint8_t> read_phases(const Hdf5File& file, std::int64_t pieces) {
  if (pieces == 0) return {};
  place_of<std::uint8_t>(file, phases_name, pieces);
  return file.read<std::uint8_t>(phases_name, pieces);
}

}  // namespace

FileLayout layout_of(const std::string& path, const CheckpointManifest& manifest, std::size_t number,
                     std::mutex& hdf5) {
  const CheckpointManifest::File& entry = manifest.files[number];
  const std::lock_guard lock(hdf5);
  const Hdf5File file = Hdf5File::open_read(path, ExitCode::files);
  check_identity(file, manifest, entry.rank);
  FileLayout layout;
  std::vector<std::uint8_t> phases;
  if (has_codes(manifest)) phases = read_phases(file, static_cast<std::int64_t>(entry.pieces.size()));
  layout.begins = begins_in(manifest, entry, phases);
  for (std::size_t q = 0; q < manifest.quantities.size(); ++q) {
    const auto& [name, form] = manifest.quantities[q];
    const std::int64_t count = layout.begins.back().of(manifest, q);
    layout.places.push_back(count == 0                    ? 0
                            : form == QuantityForm::codes ? place_of<std::uint8_t>(file, name, count)
                                                          : place_of<float>(file, name, count));
  }
  return layout;
}

}  // namespace bert_hpc::io
