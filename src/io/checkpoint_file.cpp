#include "bert_hpc/io/checkpoint_file.hpp"

#include <algorithm>
#include <cstdio>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/io/atomic_write.hpp"
#include "bert_hpc/io/checksummed_file.hpp"
#include "bert_hpc/io/hdf5/hdf5.hpp"
#include "checkpoint_layout.hpp"
#include "descriptor.hpp"

namespace bert_hpc::io {

using detail::Descriptor;
using detail::fail_with_errno;

namespace {

using core::ExitCode;
constexpr const char* file_kind = "checkpoint";
constexpr std::int64_t block_bytes = std::int64_t{4} << 20;  // of one pwrite or pread

std::span<const std::byte> bytes_of(const Quantity& quantity) {
  return quantity.codes.empty() ? std::as_bytes(quantity.numbers) : std::as_bytes(quantity.codes);
}

void write_payload(const std::string& path, std::span<const Quantity> quantities,
                   const std::vector<std::int64_t>& places, const std::atomic<bool>& cancelled) {
  Descriptor file(path, O_RDWR);
  if (!file.valid()) fail_with_errno(ExitCode::files, "open", path);
  for (std::size_t q = 0; q < quantities.size(); ++q) {
    const auto bytes = bytes_of(quantities[q]);
    for (std::size_t done = 0; done < bytes.size(); done += block_bytes) {
      if (cancelled) throw core::Error(ExitCode::files, "Writing '" + path + "' was given up.");
      const std::size_t count = std::min<std::size_t>(block_bytes, bytes.size() - done);
      const std::int64_t place = places[q] + static_cast<std::int64_t>(done);
      if (!file.write_all_at(bytes.data() + done, count, place)) fail_with_errno(ExitCode::files, "write", path);
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
  std::vector<std::int64_t> places;
  {
    const std::lock_guard lock(hdf5);
    Hdf5File file = Hdf5File::create(path, ExitCode::files, seal_bytes);
    file.write_attribute("/", "schema", checkpoint_schema);
    file.write_attribute("/", "id", id);
    file.write_attribute("/", "step", step);
    file.write_attribute("/", "rank", std::int64_t{rank});
    for (const auto& [name, numbers, codes] : quantities) {
      const auto count = static_cast<std::int64_t>(std::max(numbers.size(), codes.size()));
      places.push_back(count == 0        ? 0
                       : numbers.empty() ? file.allocate<std::uint8_t>(name, {count})
                                         : file.allocate<float>(name, {count}));
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
  refuse_link(path, ExitCode::files);
  verify(path, file_kind, ExitCode::files);
  layout_of(path, manifest, file, hdf5);
}

}  // namespace bert_hpc::io
