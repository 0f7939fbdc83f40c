// Filtered chunks, which io/hdf5/chunks.cpp undoes: right ones in every combination of filters, and ones that lie about
// their size, which take no more memory than the dataset says that a chunk holds.
#include <hdf5.h>
#include <zlib.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <random>

#include "bert_hpc/io/hdf5/hdf5.hpp"
#include "support/memory_taken.hpp"
#include "support/temporary_directory.hpp"

using namespace bert_hpc::io;
using bert_hpc::core::ExitCode;
using bert_hpc::test::TemporaryDirectory;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr hsize_t rows = 1 << 15;  // of one chunk, 128 KiB

std::string compressed(std::size_t bytes) {
  const std::string plain(bytes, '\0');
  uLongf size = compressBound(static_cast<uLong>(bytes));
  std::string stream(size, '\0');
  compress(reinterpret_cast<Bytef*>(stream.data()), &size, reinterpret_cast<const Bytef*>(plain.data()),
           static_cast<uLong>(bytes));
  stream.resize(size);
  return stream;
}

/// A dataset of one chunk that is stored as `bytes`.
void write_chunk(const std::string& path, const std::string& bytes, bool gzip, bool summed = false) {
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(1, &rows, nullptr), creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(creation, 1, &rows);
  if (gzip) H5Pset_deflate(creation, 6);
  if (summed) H5Pset_fletcher32(creation);
  const hid_t data = H5Dcreate2(file, "data", H5T_STD_I32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  const hsize_t begin = 0;
  REQUIRE(H5Dwrite_chunk(data, H5P_DEFAULT, 0, &begin, bytes.size(), bytes.data()) >= 0);
  H5Dclose(data);
  REQUIRE(H5Fclose(file) >= 0);
}

}  // namespace

TEST_CASE("chunks with every combination of filters read back unchanged, in whole and in parts") {
  const TemporaryDirectory directory;
  std::mt19937 random(1);
  std::vector<std::int64_t> values(1001);
  for (auto& value : values) value = static_cast<std::int64_t>(random() % 3000) - 1500;
  std::vector<std::uint16_t> narrow(1001);
  for (auto& value : narrow) value = static_cast<std::uint16_t>(random());
  for (int filters = 0; filters < 8; ++filters) {
    INFO("filters " << filters);
    const std::string path = directory / std::to_string(filters);
    {
      Hdf5File file = Hdf5File::create(path, ExitCode::data);
      file.write("data", values, {},
                 {.chunk_rows = 77, .gzip = filters & 1, .shuffle = (filters & 2) != 0, .fletcher32 = filters > 3});
      file.write("table", values, {143, 7},
                 {.chunk_rows = 10, .gzip = filters & 1, .shuffle = (filters & 2) != 0, .fletcher32 = filters > 3});
      file.write("narrow", narrow, {},
                 {.chunk_rows = 77, .gzip = filters & 1, .shuffle = (filters & 2) != 0, .fletcher32 = filters > 3});
      file.close();
    }
    const Hdf5File file = Hdf5File::open_read(path, ExitCode::data);
    CHECK(file.read<std::uint16_t>("narrow", 1001) == narrow);
    CHECK(file.read<std::int32_t>("narrow", 1001) == std::vector<std::int32_t>(narrow.begin(), narrow.end()));
    CHECK(file.read<std::int64_t>("data", 1001) == values);
    CHECK(file.read<std::int64_t>("table", 1001) == values);
    std::vector<std::int64_t> part(300);
    const Dataset data = file.dataset("data");
    data.read_rows(70, part);
    CHECK(part == std::vector(values.begin() + 70, values.begin() + 370));
    data.read_rows(600, part);
    data.read_rows(10, part);
    CHECK(part == std::vector(values.begin() + 10, values.begin() + 310));
  }
}

TEST_CASE("filtered chunks of narrower numbers and of the other order of bytes are converted") {
  const TemporaryDirectory directory;
  const std::string path = directory / "f.h5";
  const std::vector<std::int16_t> values = {1, -2, 300, -30000, 5};
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hsize_t count = 5, chunk = 2;
  const hid_t space = H5Screate_simple(1, &count, nullptr), creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(creation, 1, &chunk);
  H5Pset_shuffle(creation);
  H5Pset_deflate(creation, 6);
  const hid_t data = H5Dcreate2(file, "data", H5T_STD_I16BE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  REQUIRE(H5Dwrite(data, H5T_NATIVE_INT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
  H5Dclose(data);
  H5Fclose(file);
  const Hdf5File read = Hdf5File::open_read(path, ExitCode::data);
  CHECK(read.read<std::int32_t>("data", 5) == std::vector<std::int32_t>(values.begin(), values.end()));
}

TEST_CASE("a chunk takes only the memory of its stated size, even if it inflates to more") {
  const TemporaryDirectory directory;
  const std::string path = directory / "f.h5";
  const auto read = [&] { Hdf5File::open_read(path, ExitCode::data).read<std::int32_t>("data", 1 << 20); };
  const auto refused = [&](const std::string& bytes, bool gzip, const char* why, bool summed = false) {
    INFO(why);
    write_chunk(path, bytes, gzip, summed);
    CHECK(bert_hpc::test::memory_taken(read) < std::int64_t{8} << 20);
    CHECK_THROWS_WITH(read(), ContainsSubstring(why));
  };
  write_chunk(path, compressed(4 * rows), true);
  CHECK_NOTHROW(read());
  refused(compressed(std::size_t{100} << 20), true, "cannot be inflated to its size");
  refused(compressed(4 * rows - 1), true, "does not have its size");
  refused(std::string(1000, 'x'), true, "cannot be inflated");
  refused(std::string(8 * rows, 'x'), true, "stores more than it holds");
  refused(compressed(4 * rows) + "abcd", true, "does not match its checksum", true);
  refused(std::string(4 * rows + 3, 'x') + 'y', false, "does not match its checksum", true);
}
