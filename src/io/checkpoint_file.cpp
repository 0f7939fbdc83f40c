#include "bert_hpc/io/checkpoint_file.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <optional>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/state_blocks.hpp"
#include "bert_hpc/io/atomic_write.hpp"
#include "bert_hpc/io/checksummed_file.hpp"
#include "bert_hpc/io/hdf5/hdf5.hpp"
#include "descriptor.hpp"

namespace bert_hpc::io {

using detail::Descriptor;
using detail::fail_with_errno;

namespace {

using core::ExitCode;
constexpr const char* checkpoint_schema = "bert_hpc checkpoint 1";
constexpr const char* file_kind = "checkpoint";
constexpr std::int64_t block_bytes = std::int64_t{4} << 20;  // of one pwrite
constexpr std::int64_t read_bytes = std::int64_t{4} << 20;   // of one pread

std::span<const std::byte> bytes_of(const Quantity& quantity) {
  return quantity.codes.empty() ? std::as_bytes(quantity.numbers) : std::as_bytes(quantity.codes);
}

void write_payload(const std::string& path, std::span<const Quantity> quantities,
                   const std::vector<std::int64_t>& offsets, const std::atomic<bool>& cancelled) {
  Descriptor file(path, O_RDWR);
  if (!file.valid()) fail_with_errno(ExitCode::files, "open", path);
  for (std::size_t q = 0; q < quantities.size(); ++q) {
    const auto bytes = bytes_of(quantities[q]);
    for (std::size_t done = 0; done < bytes.size(); done += block_bytes) {
      if (cancelled) throw core::Error(ExitCode::files, "Writing '" + path + "' was given up.");
      const std::size_t count = std::min<std::size_t>(block_bytes, bytes.size() - done);
      const std::int64_t offset = offsets[q] + static_cast<std::int64_t>(done);
      if (!file.write_all_at(bytes.data() + done, count, offset)) fail_with_errno(ExitCode::files, "write", path);
    }
  }
  if (!file.close()) fail_with_errno(ExitCode::files, "write", path);
}

}  // namespace

std::string checkpoint_file_name(int rank) {
  char name[32];
  std::snprintf(name, sizeof name, "rank-%05d.h5", rank);
  return name;
}

void write_checkpoint_file(const std::string& folder, int rank, const std::string& id, std::int64_t step,
                           std::span<const Quantity> quantities, std::mutex& hdf5, const std::atomic<bool>& cancelled,
                           Durability durability) {
  const std::string path = folder + '/' + checkpoint_file_name(rank);
  std::vector<std::int64_t> offsets;
  {
    const std::lock_guard lock(hdf5);
    Hdf5File file = Hdf5File::create(path, ExitCode::files, seal_bytes);
    file.write_attribute("/", "schema", checkpoint_schema);
    file.write_attribute("/", "id", id);
    file.write_attribute("/", "step", step);
    file.write_attribute("/", "rank", std::int64_t{rank});
    for (const auto& [name, numbers, codes] : quantities) {
      const auto count = static_cast<std::int64_t>(std::max(numbers.size(), codes.size()));
      offsets.push_back(count == 0        ? 0
                        : numbers.empty() ? file.allocate<std::uint8_t>(name, {count})
                                          : file.allocate<float>(name, {count}));
    }
    file.close();
  }
  write_payload(path, quantities, offsets, cancelled);
  seal(path, file_kind);
  if (durability == Durability::forced) sync_to_disk(path);
}

// Offsets of the numbers in a file that its manifest describes.

/// How much lies before each piece of a file in its datasets: numbers of parameters, of other forms (by form), by
/// piece.
struct PieceBegins {
  std::int64_t parameters = 0;
  std::array<std::int64_t, quantity_forms> of_form{};
  std::int64_t phase = 0;  // elements of its first block that lie before it

  std::int64_t of(const CheckpointManifest& manifest, std::size_t quantity) const {
    return quantity == 0 ? parameters : of_form[static_cast<std::size_t>(manifest.quantities[quantity].form)];
  }
};

/// A file as the manifest describes it.
struct FileLayout {
  std::vector<std::int64_t> offsets;  // of the datasets, in bytes from the file's begin; 0 if there is none
  std::vector<PieceBegins> begins;    // by piece, and one more
};

namespace {

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
std::int64_t offset_of(const Hdf5File& file, const std::string& name, std::int64_t count) {
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
  offset_of<std::uint8_t>(file, phases_name, pieces);
  return file.read<std::uint8_t>(phases_name, pieces);
}

/// Layout of file number `number` at `path`. Checks its attributes and datasets: throws Error(files) if they are not
/// what the manifest says.
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
    layout.offsets.push_back(count == 0                    ? 0
                             : form == QuantityForm::codes ? offset_of<std::uint8_t>(file, name, count)
                                                           : offset_of<float>(file, name, count));
  }
  return layout;
}

}  // namespace

void verify_checkpoint_file(const std::string& folder, const CheckpointManifest& manifest, std::size_t file,
                            std::mutex& hdf5) {
  const std::string path = folder + '/' + checkpoint_file_name(manifest.files.at(file).rank);
  refuse_link(path, ExitCode::files);
  verify(path, file_kind, ExitCode::files);
  layout_of(path, manifest, file, hdf5);
}

// Reading elements of whole tensors from the pieces that the files of a checkpoint hold.

struct CheckpointReader::State {
  std::string folder;
  const CheckpointManifest& manifest;
  std::mutex& hdf5;
  /// A piece, by its file and its number there.
  struct Stored {
    std::size_t file = 0, number = 0;
    core::TensorPiece piece;
  };
  std::vector<std::vector<Stored>> by_tensor{};
  std::vector<std::optional<FileLayout>> layouts{};  // by file, filled on first use
  Descriptor open{};
  std::size_t open_file = std::numeric_limits<std::size_t>::max();

  std::string path(std::size_t file) const { return folder + '/' + checkpoint_file_name(manifest.files[file].rank); }

  const FileLayout& layout(std::size_t file) {
    if (!layouts[file]) layouts[file] = layout_of(path(file), manifest, file, hdf5);
    return *layouts[file];
  }

  /// Elements [from, from + out.size()) of the dataset of a quantity in a file.
  template <class T>
  void fetch(std::size_t file, std::size_t quantity, std::int64_t from, std::span<T> out) {
    const std::int64_t offset = layout(file).offsets[quantity] + from * static_cast<std::int64_t>(sizeof(T));
    if (open_file != file) {
      open = Descriptor(path(file), O_RDONLY);
      open_file = file;
    }
    if (!open.valid()) fail_with_errno(ExitCode::files, "open", path(file));
    const ssize_t got = open.read_some_at(out.data(), out.size_bytes(), offset);
    if (got < 0) fail_with_errno(ExitCode::files, "read", path(file));
    if (got != static_cast<ssize_t>(out.size_bytes())) {
      throw core::Error(ExitCode::files, "Cannot read '" + path(file) + "': it ends early.");
    }
  }

  /// Copies what the piece has of [first, first + out.size()); returns how many elements. fetch_elements(from, out)
  /// reads the piece's own elements from number `from` on.
  template <class T, class Fetch>
  std::int64_t copy(const core::TensorPiece& p, std::int64_t first, std::span<T> out, const Fetch& fetch_elements) {
    const std::int64_t last = first + static_cast<std::int64_t>(out.size());
    if (p.count == 1) {
      const std::int64_t begin = std::max(first, p.first), end = std::min(last, p.first + p.length);
      if (begin >= end) return 0;
      fetch_elements(begin - p.first,
                     out.subspan(static_cast<std::size_t>(begin - first), static_cast<std::size_t>(end - begin)));
      return end - begin;
    }
    // Reads whole runs, as many at a time as a block holds, and drops elements outside the range.
    const std::int64_t run_begin = first <= p.first ? 0 : (first - p.first) / p.stride;
    const std::int64_t run_end = last <= p.first ? 0 : std::min(p.count, (last - p.first - 1) / p.stride + 1);
    const std::int64_t at_once =
        std::max<std::int64_t>(1, read_bytes / static_cast<std::int64_t>(sizeof(T)) / p.length);
    std::vector<T> block;
    std::int64_t copied = 0;
    for (std::int64_t run = run_begin; run < run_end; run += at_once) {
      const std::int64_t runs = std::min(at_once, run_end - run);
      block.resize(static_cast<std::size_t>(runs * p.length));
      fetch_elements(run * p.length, std::span<T>(block));
      for (std::int64_t r = 0; r < runs; ++r) {
        const std::int64_t begins = p.first + (run + r) * p.stride;
        const std::int64_t begin = std::max(first, begins), end = std::min(last, begins + p.length);
        if (begin >= end) continue;
        std::copy_n(block.begin() + r * p.length + (begin - begins), end - begin, out.begin() + (begin - first));
        copied += end - begin;
      }
    }
    return copied;
  }

  std::size_t number_of(const std::string& quantity, QuantityForm form) const {
    const auto found = std::find_if(manifest.quantities.begin(), manifest.quantities.end(),
                                    [&](const QuantityKind& kind) { return kind.name == quantity; });
    if (found == manifest.quantities.end()) {
      throw core::Error(ExitCode::files, "Cannot use the checkpoint '" + folder + "': it has no '" + quantity + "'.");
    }
    const bool floats = form == QuantityForm::numbers && found->form == QuantityForm::small_numbers;
    core::require(found->form == form || floats, "checkpoint: a quantity is read as it is not stored");
    return static_cast<std::size_t>(found - manifest.quantities.begin());
  }

  /// fetch_piece(stored, from, out) reads elements of a piece.
  template <class T, class FetchPiece>
  void read(std::size_t quantity, std::int64_t tensor, std::int64_t first, std::span<T> out,
            const FetchPiece& fetch_piece) {
    core::require(manifest.holds(quantity, tensor), "checkpoint: a tensor does not have this quantity");
    std::int64_t copied = 0;
    for (const Stored& stored : by_tensor.at(static_cast<std::size_t>(tensor))) {
      copied +=
          copy(stored.piece, first, out, [&](std::int64_t from, std::span<T> to) { fetch_piece(stored, from, to); });
    }
    if (copied == static_cast<std::int64_t>(out.size())) return;
    throw core::Error(ExitCode::files, "Cannot use the checkpoint '" + folder + "': it does not hold all of '" +
                                           manifest.tensors[static_cast<std::size_t>(tensor)].name + "'.");
  }

  /// Elements of a quantity that has one for each of the tensor's.
  template <class T>
  void read_elements(std::size_t quantity, std::int64_t tensor, std::int64_t first, std::span<T> out) {
    read(quantity, tensor, first, out, [&](const Stored& stored, std::int64_t from, std::span<T> to) {
      fetch(stored.file, quantity, layout(stored.file).begins[stored.number].of(manifest, quantity) + from, to);
    });
  }
};

CheckpointReader::CheckpointReader(std::string folder, const CheckpointManifest& manifest, std::mutex& hdf5)
    : state_(std::make_unique<State>(State{.folder = std::move(folder), .manifest = manifest, .hdf5 = hdf5})) {
  state_->by_tensor.resize(manifest.tensors.size());
  state_->layouts.resize(manifest.files.size());
  for (std::size_t f = 0; f < manifest.files.size(); ++f) {
    const std::vector<core::TensorPiece>& pieces = manifest.files[f].pieces;
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      state_->by_tensor.at(static_cast<std::size_t>(pieces[p].tensor)).push_back({f, p, pieces[p]});
    }
  }
}

CheckpointReader::~CheckpointReader() = default;

void CheckpointReader::read(const std::string& quantity, std::int64_t tensor, std::int64_t first,
                            std::span<float> out) {
  state_->read_elements(state_->number_of(quantity, QuantityForm::numbers), tensor, first, out);
}

void CheckpointReader::read_codes(const std::string& quantity, std::int64_t tensor, std::int64_t first,
                                  std::span<std::uint8_t> out) {
  state_->read_elements(state_->number_of(quantity, QuantityForm::codes), tensor, first, out);
}

void CheckpointReader::read_scales(const std::string& quantity, std::int64_t tensor, std::int64_t first,
                                   std::span<float> out) {
  const std::size_t number = state_->number_of(quantity, QuantityForm::scales);
  std::vector<float> scales;
  state_->read(number, tensor, first, out, [&](const State::Stored& stored, std::int64_t from, std::span<float> to) {
    const PieceBegins& begins = state_->layout(stored.file).begins[stored.number];
    const std::int64_t at = begins.phase + from, block = at / core::state_blocks::size;
    const auto size = static_cast<std::int64_t>(to.size());
    scales.resize(static_cast<std::size_t>(core::state_blocks::count(size, at % core::state_blocks::size)));
    state_->fetch(stored.file, number, begins.of(state_->manifest, number) + block, std::span<float>(scales));
    for (std::int64_t i = 0; i < size; ++i) {
      to[static_cast<std::size_t>(i)] = scales[static_cast<std::size_t>((at + i) / core::state_blocks::size - block)];
    }
  });
}

}  // namespace bert_hpc::io
