// Reading elements of whole tensors from the pieces that the files of a checkpoint hold.
#include <algorithm>
#include <limits>
#include <optional>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/state_blocks.hpp"
#include "bert_hpc/io/checkpoint_file.hpp"
#include "checkpoint_layout.hpp"
#include "descriptor.hpp"

namespace bert_hpc::io {

using detail::Descriptor;
using detail::fail_with_errno;

namespace {

using core::ExitCode;
constexpr std::int64_t read_bytes = std::int64_t{4} << 20;  // of one pread

}  // namespace

struct CheckpointReader::State {
  std::string folder;
  const CheckpointManifest& manifest;
  std::mutex& hdf5;
  /// A piece, by its file and its number there.
  struct Place {
    std::size_t file = 0, number = 0;
    core::TensorPiece piece;
  };
  std::vector<std::vector<Place>> by_tensor{};
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
    const std::int64_t place = layout(file).places[quantity] + from * static_cast<std::int64_t>(sizeof(T));
    if (open_file != file) {
      open = Descriptor(path(file), O_RDONLY);
      open_file = file;
    }
    if (!open.valid()) fail_with_errno(ExitCode::files, "open", path(file));
    const ssize_t got = open.read_some_at(out.data(), out.size_bytes(), place);
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

  /// fetch_piece(place, from, out) reads elements of a piece.
  template <class T, class FetchPiece>
  void read(std::size_t quantity, std::int64_t tensor, std::int64_t first, std::span<T> out,
            const FetchPiece& fetch_piece) {
    core::require(manifest.holds(quantity, tensor), "checkpoint: a tensor does not have this quantity");
    std::int64_t copied = 0;
    for (const Place& place : by_tensor.at(static_cast<std::size_t>(tensor))) {
      copied +=
          copy(place.piece, first, out, [&](std::int64_t from, std::span<T> to) { fetch_piece(place, from, to); });
    }
    if (copied == static_cast<std::int64_t>(out.size())) return;
    throw core::Error(ExitCode::files, "Cannot use the checkpoint '" + folder + "': it does not hold all of '" +
                                           manifest.tensors[static_cast<std::size_t>(tensor)].name + "'.");
  }

  /// Elements of a quantity that has one for each of the tensor's.
  template <class T>
  void read_elements(std::size_t quantity, std::int64_t tensor, std::int64_t first, std::span<T> out) {
    read(quantity, tensor, first, out, [&](const Place& place, std::int64_t from, std::span<T> to) {
      fetch(place.file, quantity, layout(place.file).begins[place.number].of(manifest, quantity) + from, to);
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
  state_->read(number, tensor, first, out, [&](const State::Place& place, std::int64_t from, std::span<float> to) {
    const PieceBegins& begins = state_->layout(place.file).begins[place.number];
    const std::int64_t at = begins.phase + from, block = at / core::state_blocks::size;
    const auto size = static_cast<std::int64_t>(to.size());
    scales.resize(static_cast<std::size_t>(core::state_blocks::count(size, at % core::state_blocks::size)));
    state_->fetch(place.file, number, begins.of(state_->manifest, number) + block, std::span<float>(scales));
    for (std::int64_t i = 0; i < size; ++i) {
      to[static_cast<std::size_t>(i)] = scales[static_cast<std::size_t>((at + i) / core::state_blocks::size - block)];
    }
  });
}

}  // namespace bert_hpc::io
