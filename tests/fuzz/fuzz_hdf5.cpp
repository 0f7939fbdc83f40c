// Sealed files whose HDF5 is hostile: shards and the files of checkpoints whose bytes were changed, and their seal made
// to fit, as only an attacker does. Each is read in a process of its own. The fuzzer counts
// crashes, hangs and excessive memory inside the HDF5 library and reports the counts at the end; the first one in our
// code ends the run. The library has no coverage to guide the fuzzer, so this is a separate program that takes
// libFuzzer's options:
//   fuzz_hdf5 -runs=N -max_total_time=SECONDS -seed=S -artifact_prefix=P   keeps the first file of each location as P…
//   fuzz_hdf5 -seed=S -input=N                                              reads that one here, for a debugger
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "checkpoint_promises.hpp"
#include "crash_judge.hpp"
#include "fuzz.hpp"
#include "hdf5_images.hpp"
#include "shard_promises.hpp"

// Instead of the library's own: its checks of what it wrote itself would refuse nearly every change. (An attacker
// makes them fit.)
extern "C" std::uint32_t H5_checksum_metadata(const void*, std::size_t, std::uint32_t) {
  return 0;
}

extern "C" const char* __asan_default_options() {
  return "abort_on_error=1:handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0:detect_leaks=0:"
         "allocator_may_return_null=1";
}

using namespace bert_hpc;
using fuzz::Image;

namespace {

struct Options {
  std::int64_t runs = std::numeric_limits<std::int64_t>::max(), seconds = std::numeric_limits<std::int32_t>::max();
  std::uint64_t seed = 1;
  std::int64_t input = -1;
  std::string artifacts;
};

Options options_of(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    const std::size_t equals = argument.find('=');
    if (argument[0] != '-' || equals == std::string::npos) continue;  // folders of seeds
    const std::string name = argument.substr(1, equals - 1), value = argument.substr(equals + 1);
    if (name == "runs") options.runs = std::stoll(value);
    if (name == "max_total_time") options.seconds = std::stoll(value);
    if (name == "seed") options.seed = std::stoull(value);
    if (name == "input") options.input = std::stoll(value);
    if (name == "artifact_prefix") options.artifacts = value;
  }
  return options;
}

struct Inputs {
  std::vector<Image> images;
  std::string manifest;  ///< that goes with the rank's file
  std::uint64_t seed = 1;

  /// Follows from the numbers alone.
  Image image(std::int64_t number) const {
    std::mt19937_64 random(seed * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(number));
    Image image = images[random() % images.size()];
    do {
      fuzz::change(image.bytes, random);
    } while (random() % 3 != 0);
    return image;
  }
};

/// True if it was accepted.
bool read(const std::string& folder, const Inputs& inputs, const Image& image) {
  const std::string path = folder + '/' + image.file;
  if (image.kind == "checkpoint") fuzz::write_file(folder + "/manifest.h5", inputs.manifest);
  fuzz::write_file(path, image.bytes);
  io::seal(path, image.kind);
  std::mutex hdf5;
  return fuzz::accepts([&] {
    if (image.kind == "shard") return fuzz::read_shard(path, true);
    const io::CheckpointManifest manifest = io::read_manifest(folder, hdf5);
    fuzz::require_whole(manifest);
    if (image.kind != "checkpoint") return;
    io::verify_checkpoint_file(folder, manifest, 0, hdf5);
    io::CheckpointReader reader(folder, manifest, hdf5);
    for (const io::QuantityKind& quantity : manifest.quantities) {
      for (std::size_t t = 0; t < manifest.tensors.size(); ++t) {
        std::vector<float> values(static_cast<std::size_t>(manifest.tensors[t].elements()));
        reader.read(quantity.name, static_cast<std::int64_t>(t), 0, values);
      }
    }
  });
}

/// Reads inputs from `first` on in a process of their own, until one ends it; returns the first that was not read. One
/// process for many, as a start takes longer than a reading. `loud`: what the sanitizers say is seen.
std::int64_t read_in_child(const std::string& folder, const Inputs& inputs, std::int64_t first, std::int64_t count,
                           bool loud) {
  judging::Report& report = *judging::report;
  report.owner = judging::Owner::unknown;
  std::snprintf(report.text, sizeof report.text, "ended without a report");
  report.input = first;
  const pid_t child = fork();
  fuzz::require(child >= 0, "a process can be had");
  if (child == 0) {
    if (!loud) static_cast<void>(std::freopen("/dev/null", "w", stderr));
    judging::watch();
    for (; report.input < first + count; ++report.input) {
      judging::begin_input();
      ++(read(folder, inputs, inputs.image(report.input)) ? report.accepted : report.refused);
    }
    _exit(0);
  }
  int status = 0;
  fuzz::require(waitpid(child, &status, 0) == child, "a process ends");
  return report.input;
}

struct Campaign {
  Options options;
  std::int64_t inputs_read = 0;
  std::map<std::string, std::int64_t> library = {};  ///< location: how often

  void print() const {
    std::int64_t together = 0;
    for (const auto& [location, count] : library) together += count;
    std::printf("stat::number_of_executed_units: %lld\n", static_cast<long long>(inputs_read));
    std::printf("DONE: %lld accepted, %lld refused; ended inside HDF5 %s: %lld, in %zu locations\n",
                static_cast<long long>(judging::report->accepted), static_cast<long long>(judging::report->refused),
                io::hdf5_version().c_str(), static_cast<long long>(together), library.size());
    for (const auto& [location, count] : library)
      std::printf("%8lld  %s\n", static_cast<long long>(count), location.c_str());
    std::fflush(stdout);
  }

  void keep(const std::string& name, const Image& image) const {
    if (!options.artifacts.empty()) fuzz::write_file(options.artifacts + name + '-' + image.file, image.bytes);
  }

  /// An input ended its process: again, alone. False where our code did it.
  bool judge(const std::string& folder, const Inputs& inputs, std::int64_t number) {
    const Image image = inputs.image(number);
    if (read_in_child(folder, inputs, number, 1, false) > number) {
      ++library["only after other files, whose reading spoilt the memory"];
      return true;
    }
    const std::string location = judging::report->text;
    if (judging::report->owner == judging::Owner::library) {
      if (++library[location] == 1) keep("library-" + std::to_string(library.size()), image);
      return true;
    }
    std::printf("input %lld of seed %llu (%s): %s\n", static_cast<long long>(number),
                static_cast<unsigned long long>(options.seed), image.kind.c_str(), location.c_str());
    std::fflush(stdout);
    keep("ours-" + std::to_string(number), image);
    read_in_child(folder, inputs, number, 1, true);
    return false;
  }

  /// False once our code failed.
  bool run(const std::string& folder, const Inputs& inputs) {
    using Clock = std::chrono::steady_clock;
    constexpr std::int64_t at_once = 100;
    const auto begin = Clock::now();
    auto printed = begin;
    while (inputs_read < options.runs && Clock::now() - begin < std::chrono::seconds(options.seconds)) {
      const std::int64_t count = std::min(at_once, options.runs - inputs_read);
      const std::int64_t next = read_in_child(folder, inputs, inputs_read, count, false);
      const bool ended = next < inputs_read + count;
      if (ended && !judge(folder, inputs, next)) return false;
      inputs_read = next + (ended ? 1 : 0);
      if (Clock::now() - printed > std::chrono::minutes(10)) print(), printed = Clock::now();
    }
    return true;
  }
};

}  // namespace

int main(int count, char** arguments) {
  std::string folder = "/dev/shm/bert_hpc_fuzz_XXXXXX";
  fuzz::require(mkdtemp(folder.data()) != nullptr, "a folder can be had");
  Campaign campaign{options_of(count, arguments)};
  judging::prepare();
  Inputs inputs{fuzz::make_images(folder), fuzz::bytes_of(folder + "/manifest.h5"), campaign.options.seed};
  for (const Image& image : inputs.images) fuzz::require(read(folder, inputs, image), "unchanged files are read");
  bool good = true;
  if (campaign.options.input >= 0) {
    const Image image = inputs.image(campaign.options.input);
    std::printf("%s: %s\n", image.kind.c_str(), read(folder, inputs, image) ? "accepted" : "refused");
  } else {
    good = campaign.run(folder, inputs);
    campaign.print();
  }
  std::filesystem::remove_all(folder);
  return good ? 0 : 1;
}
