// The journal of a run's metrics, which a crash may tear anywhere: as it lies in the file, and its lines as if their
// checksums were right, made into metrics.h5. And the checksummed block before HDF5 files.
#include "bert_hpc/io/checksummed_file.hpp"
#include "bert_hpc/io/journal.hpp"
#include "fuzz.hpp"
#include "hdf5_memory.hpp"
#include "io/metrics_tables.hpp"

using namespace bert_hpc;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view all = fuzz::text(data, size);
  const fuzz::File file(all);
  fuzz::accepts([&] {
    std::size_t bytes = 0;
    io::Journal::replay(file.path(), io::detail::journal_title, [&](std::string_view line) { bytes += line.size(); });
    fuzz::require(bytes <= size, "lines are what the file holds");
  });
  fuzz::accepts([&] { io::check_seal(file.path(), "shard"); });
  io::detail::MetricsTables tables;
  bool sense = false;
  for (std::size_t begin = 0; begin < size;) {
    const std::size_t end = std::min(all.find('\n', begin), size);
    sense |= tables.apply(all.substr(begin, end - begin));
    begin = end + 1;
  }
  // Making the file takes fifty times as long as reading the lines: one in sixteen inputs, by what they hold.
  if (sense && fuzz::digest(all) % 16 == 0) fuzz::accepts([&] { tables.to_hdf5("metrics.h5"); });
  return 0;
}
