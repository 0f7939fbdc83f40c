// Manifests of checkpoints whose checksum is right and whose content lies: shapes, files and pieces as the input says.
// What is accepted covers every tensor once. One of sixteen, by a hash, goes through a
// file, which takes a hundred times as long; so does what a manifest says of the metric history.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/io/checkpoint_file.hpp"
#include "bert_hpc/io/checksummed_file.hpp"
#include "checkpoint_promises.hpp"
#include "fuzz.hpp"
#include "hdf5_memory.hpp"

using namespace bert_hpc;

namespace {

std::int64_t perhaps(FuzzedDataProvider& input, std::int64_t right) {
  return input.ConsumeIntegralInRange(0, 11) != 0 ? right : input.ConsumeIntegral<std::int64_t>();
}

io::CheckpointManifest manifest_of(FuzzedDataProvider& input) {
  io::CheckpointManifest manifest;
  manifest.id = input.ConsumeRandomLengthString(8);
  manifest.step = perhaps(input, 100);
  std::vector<core::TensorPiece> pieces;
  for (std::int64_t t = input.ConsumeIntegralInRange(0, 4); t > 0; --t) {
    const std::int64_t rows = input.ConsumeIntegralInRange(1, 4), columns = input.ConsumeIntegralInRange(1, 6);
    const auto number = static_cast<std::int64_t>(manifest.tensors.size());
    manifest.tensors.push_back({input.ConsumeBool() ? "t" + std::to_string(number) : input.ConsumeRandomLengthString(6),
                                {perhaps(input, rows), perhaps(input, columns)}});
    // Whole, or its left and right columns.
    const std::int64_t cut = input.ConsumeIntegralInRange<std::int64_t>(0, columns - 1);
    if (cut == 0) {
      pieces.push_back({perhaps(input, number), perhaps(input, 0), perhaps(input, rows * columns), 1, 0});
    } else {
      pieces.push_back({number, perhaps(input, 0), perhaps(input, cut), perhaps(input, rows), columns});
      pieces.push_back({number, cut, columns - cut, rows, perhaps(input, columns)});
    }
  }
  for (const core::TensorPiece& piece : pieces) {
    if (manifest.files.empty() || input.ConsumeBool()) {
      const auto rank = static_cast<int>(manifest.files.size());
      manifest.files.push_back({input.ConsumeIntegralInRange(0, 9) != 0 ? rank : input.ConsumeIntegral<int>(), {}});
    }
    manifest.files.back().pieces.push_back(piece);
  }
  manifest.integers.emplace_back(input.ConsumeRandomLengthString(6), input.ConsumeIntegral<std::int64_t>());
  manifest.texts.emplace_back("input", input.ConsumeRandomLengthString(20));
  return manifest;
}

void check_history(FuzzedDataProvider& input, const std::string& folder) {
  const std::string content = input.ConsumeRandomLengthString(16), path = folder + '/' + io::history_name;
  std::ofstream(path, std::ios::binary) << content;
  const auto size = static_cast<std::int64_t>(content.size());
  const std::uint32_t checksum = io::file_checksum(path, core::ExitCode::files);
  const std::int64_t bytes_claimed = perhaps(input, size);
  const auto checksum_claimed = static_cast<std::uint32_t>(perhaps(input, checksum));
  io::CheckpointManifest manifest;
  io::put_history(manifest, bytes_claimed, checksum_claimed);
  const bool accepted = fuzz::accepts([&] { io::verify_history(folder, manifest); });
  fuzz::require(accepted == (bytes_claimed == size && checksum_claimed == checksum), "a history is what was claimed");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const std::string folder = [] {
    std::string name = "/dev/shm/bert_hpc_fuzz_XXXXXX";
    fuzz::require(mkdtemp(name.data()) != nullptr, "a folder can be had");
    return name;
  }();
  static const int removed = std::atexit([] { std::filesystem::remove_all(folder); });
  static_cast<void>(removed);
  FuzzedDataProvider input(bytes, size);
  const bool through_file = core::fnv1a_64(fuzz::text(bytes, size)) % 16 == 0;
  const io::CheckpointManifest claimed = manifest_of(input);
  const bool sound = fuzz::accepts([&] { io::require_sound(claimed, "manifest.h5"); });
  if (sound) fuzz::require_whole(claimed);
  if (!through_file) return 0;
  check_history(input, folder);
  std::mutex hdf5;
  if (!fuzz::accepts([&] { io::write_manifest(folder, claimed, hdf5); })) return 0;
  const bool read = fuzz::accepts([&] { fuzz::require_whole(io::read_manifest(folder, hdf5)); });
  fuzz::require(sound || !read, "what a file says is checked as what a manifest says");
  return 0;
}
