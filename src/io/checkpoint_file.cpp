#include "bert_hpc/io/checkpoint_file.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/io/atomic_write.hpp"
#include "bert_hpc/io/checksummed_file.hpp"
#include "bert_hpc/io/hdf5/hdf5.hpp"
#include "descriptor.hpp"

namespace bert_hpc::io {

using detail::Descriptor;
using detail::fail_with_errno;

namespace {

constexpr core::ExitCode code = core::ExitCode::files;
constexpr const char* file_kind = "checkpoint";
constexpr const char* schema = "bert_hpc checkpoint 1";
constexpr std::int64_t block_bytes = std::int64_t{4} << 20;  // of one pwrite or pread
constexpr std::int64_t float_bytes = sizeof(float);

/// Of a file's datasets, in bytes from its begin.
using Places = std::vector<std::int64_t>;

void check_identity(const Hdf5File& file, const CheckpointManifest& manifest, int rank) {
  if (file.text_attribute("/", "schema") == schema && file.text_attribute("/", "id") == manifest.id &&
      file.integer_attribute("/", "step") == manifest.step && file.integer_attribute("/", "rank") == rank) {
    return;
  }
  throw core::Error(code, "Cannot use '" + file.path() + "': it belongs to another checkpoint than its manifest.");
}

std::int64_t elements_of(const CheckpointManifest& manifest, const CheckpointManifest::File& file,
                         std::size_t quantity) {
  std::int64_t elements = 0;
  for (const core::TensorPiece& piece : file.pieces) {
    if (manifest.holds(quantity, piece.tensor)) elements += piece.elements();
  }
  return elements;
}

/// Checks the file's attributes and datasets; returns the file offsets of the datasets, 0 where there is none.
Places places_in(const std::string& path, const CheckpointManifest& manifest, std::size_t number, std::mutex& hdf5) {
  const CheckpointManifest::File& entry = manifest.files[number];
  const std::lock_guard lock(hdf5);
  const Hdf5File file = Hdf5File::open_read(path, code);
  check_identity(file, manifest, entry.rank);
  Places places;
  for (std::size_t q = 0; q < manifest.quantities.size(); ++q) {
    const std::int64_t elements = elements_of(manifest, entry, q);
    if (elements == 0) {
      places.push_back(0);
      continue;
    }
    const Dataset dataset = file.dataset(manifest.quantities[q]);
    dataset.expect<float>(1);
    if (dataset.info().element_bytes != float_bytes || dataset.info().elements() != elements) {
      throw core::Error(code, "Cannot use '" + path + "': '" + dataset.name() + "' is " + dataset.info().type_name() +
                                  ' ' + dataset.info().shape_text() + ", not as the manifest says.");
    }
    places.push_back(dataset.file_offset());
  }
  return places;
}

void write_payload(const std::string& path, std::span<const Quantity> quantities, const Places& places,
                   const std::atomic<bool>& cancelled) {
  Descriptor file(path, O_RDWR);
  if (!file.valid()) fail_with_errno(code, "open", path);
  for (std::size_t q = 0; q < quantities.size(); ++q) {
    const auto bytes = std::as_bytes(quantities[q].numbers);
    for (std::size_t done = 0; done < bytes.size(); done += block_bytes) {
      if (cancelled) throw core::Error(code, "Writing '" + path + "' was given up.");
      const std::size_t count = std::min<std::size_t>(block_bytes, bytes.size() - done);
      const std::int64_t place = places[q] + static_cast<std::int64_t>(done);
      if (!file.write_all_at(bytes.data() + done, count, place)) fail_with_errno(code, "write", path);
    }
  }
  if (!file.close()) fail_with_errno(code, "write", path);
}

}  // namespace

std::string checkpoint_file_name(int rank) {
  char name[32];
  std::snprintf(name, sizeof name, "rank-%05d.h5", rank);
  return name;
}

std::int64_t checkpoint_file_bytes(std::int64_t elements, std::int64_t quantities) {
  constexpr std::int64_t metadata = 8192;
  return quantities * elements * float_bytes + metadata;
}

void write_checkpoint_file(const std::string& folder, int rank, const std::string& id, std::int64_t step,
                           std::span<const Quantity> quantities, std::mutex& hdf5, const std::atomic<bool>& cancelled,
                           Durability durability) {
  const std::string path = folder + '/' + checkpoint_file_name(rank);
  Places places;
  {
    const std::lock_guard lock(hdf5);
    Hdf5File file = Hdf5File::create(path, code, seal_bytes);
    file.write_attribute("/", "schema", schema);
    file.write_attribute("/", "id", id);
    file.write_attribute("/", "step", step);
    file.write_attribute("/", "rank", std::int64_t{rank});
    for (const Quantity& quantity : quantities) {
      if (quantity.numbers.empty()) {
        places.push_back(0);
        continue;
      }
      places.push_back(file.allocate<float>(quantity.name, {static_cast<std::int64_t>(quantity.numbers.size())}));
    }
    file.close();
  }
  write_payload(path, quantities, places, cancelled);
  seal(path, file_kind);
  if (durability == Durability::forced) sync_to_disk(path);
}

void verify_checkpoint_file(const std::string& folder, const CheckpointManifest& manifest, std::size_t file,
                            std::mutex& hdf5) {
  const std::string path = folder + '/' + checkpoint_file_name(manifest.files.at(file).rank);
  refuse_link(path, code);
  verify(path, file_kind, code);
  places_in(path, manifest, file, hdf5);
}

struct CheckpointReader::State {
  std::string folder;
  const CheckpointManifest& manifest;
  std::mutex& hdf5;
  /// Location of a piece: its file and the number of the file's elements before it, all of them and those with states.
  struct Place {
    std::size_t file = 0;
    std::int64_t before = 0, before_with_states = 0;
    core::TensorPiece piece;

    std::int64_t begin(std::size_t quantity) const { return quantity == 0 ? before : before_with_states; }
  };
  std::vector<std::vector<Place>> by_tensor{};
  std::vector<std::optional<Places>> offsets{};  // by file, filled on first use
  Descriptor open{};
  std::size_t open_file = std::numeric_limits<std::size_t>::max();
  std::vector<float> block{};

  std::string path(std::size_t file) const { return folder + '/' + checkpoint_file_name(manifest.files[file].rank); }

  std::int64_t offset(std::size_t file, std::size_t quantity) {
    if (!offsets[file]) offsets[file] = places_in(path(file), manifest, file, hdf5);
    return (*offsets[file])[quantity];
  }

  /// Elements [from, from + out.size()) of a file's.
  void fetch(std::size_t file, std::size_t quantity, std::int64_t from, std::span<float> out) {
    const std::int64_t place = offset(file, quantity) + from * float_bytes;
    if (open_file != file) {
      open = Descriptor(path(file), O_RDONLY);
      open_file = file;
    }
    if (!open.valid()) fail_with_errno(code, "open", path(file));
    const ssize_t got = open.read_some_at(out.data(), out.size_bytes(), place);
    if (got < 0) fail_with_errno(code, "read", path(file));
    if (got != static_cast<ssize_t>(out.size_bytes())) {
      throw core::Error(code, "Cannot read '" + path(file) + "': it ends early.");
    }
  }

  /// Copies what the piece has of [first, first + out.size()); returns how many elements.
  std::int64_t copy(const Place& at, std::size_t quantity, std::int64_t first, std::span<float> out) {
    const core::TensorPiece& p = at.piece;
    const std::int64_t last = first + static_cast<std::int64_t>(out.size());
    if (p.count == 1) {
      const std::int64_t begin = std::max(first, p.first), end = std::min(last, p.first + p.length);
      if (begin >= end) return 0;
      fetch(at.file, quantity, at.begin(quantity) + (begin - p.first),
            out.subspan(static_cast<std::size_t>(begin - first), static_cast<std::size_t>(end - begin)));
      return end - begin;
    }
    // Reads whole runs, as many at a time as a block holds, and drops elements outside the range.
    const std::int64_t run_begin = first <= p.first ? 0 : (first - p.first) / p.stride;
    const std::int64_t run_end = last <= p.first ? 0 : std::min(p.count, (last - p.first - 1) / p.stride + 1);
    const std::int64_t at_once = std::max<std::int64_t>(1, block_bytes / float_bytes / p.length);
    std::int64_t copied = 0;
    for (std::int64_t run = run_begin; run < run_end; run += at_once) {
      const std::int64_t runs = std::min(at_once, run_end - run);
      block.resize(static_cast<std::size_t>(runs * p.length));
      fetch(at.file, quantity, at.begin(quantity) + run * p.length, block);
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
};

CheckpointReader::CheckpointReader(std::string folder, const CheckpointManifest& manifest, std::mutex& hdf5)
    : state_(std::make_unique<State>(State{.folder = std::move(folder), .manifest = manifest, .hdf5 = hdf5})) {
  state_->by_tensor.resize(manifest.tensors.size());
  state_->offsets.resize(manifest.files.size());
  for (std::size_t f = 0; f < manifest.files.size(); ++f) {
    std::int64_t before = 0, with_states = 0;
    for (const core::TensorPiece& piece : manifest.files[f].pieces) {
      state_->by_tensor.at(static_cast<std::size_t>(piece.tensor)).push_back({f, before, with_states, piece});
      before += piece.elements();
      if (manifest.holds(1, piece.tensor)) with_states += piece.elements();
    }
  }
}

CheckpointReader::~CheckpointReader() = default;

void CheckpointReader::read(const std::string& quantity, std::int64_t tensor, std::int64_t first,
                            std::span<float> out) {
  const std::vector<std::string>& all = state_->manifest.quantities;
  const auto found = std::find(all.begin(), all.end(), quantity);
  if (found == all.end()) {
    throw core::Error(code, "Cannot use the checkpoint '" + state_->folder + "': it has no '" + quantity + "'.");
  }
  const auto number = static_cast<std::size_t>(found - all.begin());
  core::require(state_->manifest.holds(number, tensor), "checkpoint: a frozen tensor has no optimizer states");
  std::int64_t copied = 0;
  for (const State::Place& place : state_->by_tensor.at(static_cast<std::size_t>(tensor))) {
    copied += state_->copy(place, number, first, out);
  }
  if (copied == static_cast<std::int64_t>(out.size())) return;
  throw core::Error(code, "Cannot use the checkpoint '" + state_->folder + "': it does not hold all of '" +
                              state_->manifest.tensors[static_cast<std::size_t>(tensor)].name + "'.");
}

}  // namespace bert_hpc::io
