// manifest.h5: root attributes schema, id, step; /tensors/{names, shapes (text "768,768"), frozen (numbers of tensors
// without optimizer states, only where there are any)}; /files/{ranks, pieces}: the number of pieces of each file;
// /pieces (pieces, 5): tensor, first, length, count, stride; /quantities: names of the datasets of each file;
// /quantity_forms: how they hold elements, only where any is not in fp32;
// /integers/{names, values}, /reals/…, /texts/…: what else there is.
#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/state_blocks.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/io/atomic_write.hpp"
#include "bert_hpc/io/checkpoint_file.hpp"
#include "bert_hpc/io/checksummed_file.hpp"
#include "bert_hpc/io/hdf5/hdf5.hpp"

namespace bert_hpc::io {
namespace {

using core::ExitCode;
constexpr const char* manifest_kind = "checkpoint-manifest";
constexpr const char* schema = "bert_hpc checkpoint 1";
constexpr std::int64_t piece_columns = 5;
/// In the order of QuantityForm.
constexpr std::array<const char*, quantity_forms> form_names = {"numbers", "small_numbers", "codes", "scales"};
// Upper bounds for what a manifest may claim.
constexpr std::int64_t max_tensors = 1 << 20, max_pieces = std::int64_t{1} << 28, max_files = 1 << 20;
constexpr std::int64_t most_elements = std::int64_t{1} << 46;
constexpr std::int64_t max_quantities = 64, max_entries = 1 << 16, max_ranks = 1 << 20;

std::string manifest_path(const std::string& folder) {
  return folder + '/' + manifest_name;
}

[[noreturn]] void refuse_manifest(const std::string& path, const std::string& why) {
  throw core::Error(core::ExitCode::files, "Cannot use '" + path + "' as a manifest of a checkpoint: " + why + '.');
}

/// "768,768".
std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t extent : shape) {
    if (!text.empty()) text += ',';
    text += std::to_string(extent);
  }
  return text;
}

std::vector<std::int64_t> shape_of(const std::string& text, const std::string& path) {
  std::vector<std::int64_t> shape;
  const char *next = text.data(), *const end = text.data() + text.size();
  while (next != end) {
    std::int64_t extent = 0;
    const auto [stop, problem] = std::from_chars(next, end, extent);
    const bool good = problem == std::errc{} && (stop == end || (*stop == ',' && stop + 1 != end));
    if (!good) refuse_manifest(path, core::listed({core::printable(text, 60)}, "") + " is no shape of a tensor");
    shape.push_back(extent);
    next = stop == end ? end : stop + 1;
  }
  return shape;
}

template <class T>
void write_entries(Hdf5File& file, const std::string& group, const std::vector<std::pair<std::string, T>>& entries) {
  if (entries.empty()) return;
  std::vector<std::string> names;
  std::vector<T> values;
  for (const auto& [name, value] : entries) {
    names.push_back(name);
    values.push_back(value);
  }
  file.write_text(group + "/names", names);
  if constexpr (std::is_same_v<T, std::string>) {
    file.write_text(group + "/values", values);
  } else {
    file.write(group + "/values", values);
  }
}

template <class T>
std::vector<std::pair<std::string, T>> read_entries(const Hdf5File& file, const std::string& group) {
  std::vector<std::pair<std::string, T>> entries;
  if (!file.exists(group)) return entries;
  std::vector<std::string> names = file.read_text(group + "/names", max_entries);
  std::vector<T> values;
  if constexpr (std::is_same_v<T, std::string>) {
    values = file.read_text(group + "/values", max_entries);
  } else {
    values = file.read<T>(group + "/values", max_entries);
  }
  if (names.size() != values.size())
    refuse_manifest(file.path(), "names and values of '" + group + "' differ in number");
  for (std::size_t i = 0; i < names.size(); ++i) entries.emplace_back(std::move(names[i]), std::move(values[i]));
  return entries;
}

template <class T>
const T& entry(const CheckpointManifest& manifest, const std::vector<std::pair<std::string, T>>& entries,
               const std::string& name) {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.first == name; });
  if (found != entries.end()) return found->second;
  throw core::Error(ExitCode::files, "The checkpoint of step " + std::to_string(manifest.step) + " lacks '" + name +
                                         "': another version of bert_hpc wrote it.");
}

void write_quantities(Hdf5File& file, const std::vector<QuantityKind>& quantities) {
  std::vector<std::string> names, forms;
  bool all_numbers = true;
  for (const QuantityKind& quantity : quantities) {
    names.push_back(quantity.name);
    forms.emplace_back(form_names[static_cast<std::size_t>(quantity.form)]);
    all_numbers = all_numbers && quantity.form == QuantityForm::numbers;
  }
  file.write_text("quantities", names);
  if (!all_numbers) file.write_text("quantity_forms", forms);
}

void read_quantities(const Hdf5File& file, std::vector<QuantityKind>& quantities) {
  // Manifests of before the list are of AdamW.
  quantities = {{parameters_name}, {"first_moments"}, {"second_moments"}};
  if (file.exists("quantities")) {
    quantities.clear();
    for (std::string& name : file.read_text("quantities", max_quantities)) quantities.push_back({std::move(name)});
  }
  if (!file.exists("quantity_forms")) return;
  const std::vector<std::string> forms = file.read_text("quantity_forms", max_quantities);
  if (forms.size() != quantities.size()) refuse_manifest(file.path(), "its list of quantities is incomplete");
  for (std::size_t q = 0; q < forms.size(); ++q) {
    const auto found = std::find(form_names.begin(), form_names.end(), forms[q]);
    if (found == form_names.end())
      refuse_manifest(file.path(), core::listed({core::printable(forms[q])}, "") + " is no form of a quantity");
    quantities[q].form = static_cast<QuantityForm>(found - form_names.begin());
  }
}

void read_files(const Hdf5File& file, CheckpointManifest& manifest) {
  const std::string& path = file.path();
  const auto ranks = file.read<std::int64_t>("files/ranks", max_files);
  const auto counts = file.read<std::int64_t>("files/pieces", max_files);
  if (ranks.size() != counts.size()) refuse_manifest(path, "its list of files is incomplete");
  const Dataset pieces = file.dataset("pieces");
  pieces.expect<std::int64_t>(2);
  const std::vector<std::int64_t>& extents = pieces.info().extents;
  if (extents[1] != piece_columns || extents[0] > max_pieces)
    refuse_manifest(path, "its list of pieces has the wrong shape");
  pieces.require_stored();
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(extents[0] * piece_columns));
  pieces.read_rows(0, numbers);
  std::size_t next = 0;
  for (std::size_t f = 0; f < ranks.size(); ++f) {
    const std::int64_t left = extents[0] - static_cast<std::int64_t>(next / piece_columns);
    if (ranks[f] < 0 || ranks[f] >= max_ranks || counts[f] < 0 || counts[f] > left) {
      refuse_manifest(path, "its list of files is incomplete");
    }
    CheckpointManifest::File& entry = manifest.files.emplace_back();
    entry.rank = static_cast<int>(ranks[f]);
    for (std::int64_t i = 0; i < counts[f]; ++i, next += piece_columns) {
      entry.pieces.push_back(
          {numbers[next], numbers[next + 1], numbers[next + 2], numbers[next + 3], numbers[next + 4]});
    }
  }
  if (next != numbers.size()) refuse_manifest(path, "it lists more pieces than its files have");
}

// What a manifest must hold for its checkpoint to be read: pure checks of its contents.

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

std::int64_t CheckpointManifest::integer(const std::string& name) const {
  return entry(*this, integers, name);
}
double CheckpointManifest::real(const std::string& name) const {
  return entry(*this, reals, name);
}
bool CheckpointManifest::has_number(const std::string& name) const {
  const auto named = [&name](const auto& list) {
    return std::any_of(list.begin(), list.end(), [&name](const auto& entry) { return entry.first == name; });
  };
  return named(integers) || named(reals);
}
const std::string& CheckpointManifest::text(const std::string& name) const {
  return entry(*this, texts, name);
}

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
      refuse_manifest(path, core::listed({shape_text(tensor.shape)}, "") + " is no shape of a tensor");
    }
  }
  for (std::size_t f = 1; f < manifest.files.size(); ++f) {
    if (manifest.files[f].rank <= manifest.files[f - 1].rank)
      refuse_manifest(path, "its files are not in the order of ranks");
  }
  check_quantities(manifest.quantities, path);
  check_pieces(manifest, path);
}

void write_manifest(const std::string& folder, const CheckpointManifest& manifest, std::mutex& hdf5,
                    Durability durability) {
  const std::string path = manifest_path(folder);
  {
    const std::lock_guard lock(hdf5);
    Hdf5File file = Hdf5File::create(path, ExitCode::files, seal_bytes);
    file.write_attribute("/", "schema", schema);
    file.write_attribute("/", "id", manifest.id);
    file.write_attribute("/", "step", manifest.step);
    std::vector<std::string> names, shapes;
    std::vector<std::int64_t> frozen;
    for (const core::WholeTensor& tensor : manifest.tensors) {
      if (!tensor.trainable) frozen.push_back(static_cast<std::int64_t>(names.size()));
      names.push_back(tensor.name);
      shapes.push_back(shape_text(tensor.shape));
    }
    file.write_text("tensors/names", names);
    file.write_text("tensors/shapes", shapes);
    if (!frozen.empty()) file.write("tensors/frozen", frozen);
    std::vector<std::int64_t> ranks, counts, pieces;
    for (const CheckpointManifest::File& entry : manifest.files) {
      ranks.push_back(entry.rank);
      counts.push_back(static_cast<std::int64_t>(entry.pieces.size()));
      for (const core::TensorPiece& p : entry.pieces) {
        pieces.insert(pieces.end(), {p.tensor, p.first, p.length, p.count, p.stride});
      }
    }
    file.write("files/ranks", ranks);
    file.write("files/pieces", counts);
    file.write("pieces", pieces, {static_cast<std::int64_t>(pieces.size()) / piece_columns, piece_columns});
    write_quantities(file, manifest.quantities);
    write_entries(file, "integers", manifest.integers);
    write_entries(file, "reals", manifest.reals);
    write_entries(file, "texts", manifest.texts);
    file.close();
  }
  seal(path, manifest_kind);
  if (durability == Durability::forced) sync_to_disk(path);
}

CheckpointManifest read_manifest(const std::string& folder, std::mutex& hdf5) {
  const std::string path = manifest_path(folder);
  refuse_link(folder, ExitCode::files);
  refuse_link(path, ExitCode::files);
  verify(path, manifest_kind, ExitCode::files);
  const std::lock_guard lock(hdf5);
  const Hdf5File file = Hdf5File::open_read(path, ExitCode::files);
  if (file.text_attribute("/", "schema") != schema) refuse_manifest(path, "another version of bert_hpc wrote it");
  CheckpointManifest manifest;
  manifest.id = file.text_attribute("/", "id");
  manifest.step = file.integer_attribute("/", "step");
  std::vector<std::string> names = file.read_text("tensors/names", max_tensors);
  const std::vector<std::string> shapes = file.read_text("tensors/shapes", max_tensors);
  if (names.size() != shapes.size()) refuse_manifest(path, "its list of tensors is incomplete");
  for (std::size_t i = 0; i < names.size(); ++i) {
    manifest.tensors.push_back({std::move(names[i]), shape_of(shapes[i], path)});
  }
  if (file.exists("tensors/frozen")) {
    for (const std::int64_t number : file.read<std::int64_t>("tensors/frozen", max_tensors)) {
      if (number < 0 || number >= static_cast<std::int64_t>(manifest.tensors.size())) {
        refuse_manifest(path, "a frozen tensor is not in the list");
      }
      manifest.tensors[static_cast<std::size_t>(number)].trainable = false;
    }
  }
  read_files(file, manifest);
  read_quantities(file, manifest.quantities);
  manifest.integers = read_entries<std::int64_t>(file, "integers");
  manifest.reals = read_entries<double>(file, "reals");
  manifest.texts = read_entries<std::string>(file, "texts");
  require_sound(manifest, path);
  return manifest;
}

}  // namespace bert_hpc::io
