#include <hdf5.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "bert_hpc/io/hdf5/hdf5.hpp"
#include "support/temporary_directory.hpp"

using namespace bert_hpc::io;
using bert_hpc::core::Error;
using bert_hpc::core::ExitCode;
using bert_hpc::test::TemporaryDirectory;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("numbers, text and attributes come back as they were written") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.h5";
  const std::vector<std::int32_t> ids = {1, -2, 2147483647};
  const std::vector<double> matrix = {1, 2, 3, 4, 5, 6};
  const std::vector<std::string> words = {"", "été", "a longer piece of text"};
  {
    Hdf5File file = Hdf5File::create(path, ExitCode::data, 512);
    file.write("ids", ids);
    file.write("deep/er/matrix", matrix, {2, 3}, {.chunk_rows = 1, .gzip = 4, .shuffle = true, .fletcher32 = true});
    file.write("cube", std::vector<std::uint8_t>(24, 7), {2, 3, 4});
    file.write("nothing", std::vector<float>{}, {}, {.chunk_rows = 8, .gzip = 1});
    file.write_text("words", words);
    file.write_fixed_text("fixed", words);
    file.write_attribute("/", "schema", "bert_hpc test 1");
    file.write_attribute("/", "schema", "bert_hpc test 2");
    file.write_attribute("ids", "count", std::int64_t{3});
    file.write_attribute("ids", "scale", 0.5);
    file.write_attribute("/", "labels", words);
    file.write_attribute("/", "reals", std::vector<double>{1.5, -2});
    file.write_attribute("/", "none", std::vector<std::int64_t>{});
    file.close();
  }
  const Hdf5File file = Hdf5File::open_read(path, ExitCode::data);
  CHECK(file.read<std::int32_t>("ids", 3) == ids);
  CHECK(file.read<std::int64_t>("ids", 3) == std::vector<std::int64_t>{1, -2, 2147483647});
  CHECK(file.read<double>("/deep/er/matrix", 6) == matrix);
  CHECK(file.read<std::uint8_t>("cube", 24) == std::vector<std::uint8_t>(24, 7));
  CHECK(file.read<float>("nothing", 0).empty());
  CHECK(file.read_text("words", 3) == words);
  CHECK(file.read_text("fixed", 3) == words);
  CHECK(file.text_attribute("/", "schema") == "bert_hpc test 2");
  CHECK(file.integer_attribute("ids", "count") == 3);
  CHECK(file.real_attributes("ids", "scale") == std::vector{0.5});
  CHECK(file.real_attributes("ids", "count") == std::vector{3.0});
  CHECK(file.text_attributes("/", "labels") == words);
  CHECK(file.real_attributes("/", "reals") == std::vector<double>{1.5, -2});
  CHECK(file.integer_attributes("/", "none").empty());
  CHECK(file.names("/") == std::vector<std::string>{"cube", "deep", "fixed", "ids", "nothing", "words"});
  CHECK(file.exists("deep/er"));
  CHECK_FALSE(file.exists("deep/er/matrix/x"));
  CHECK_FALSE(file.exists("shallow/er"));
  const DatasetInfo info = file.info("deep/er/matrix");
  CHECK(info.type_name() == "float64");
  CHECK(info.extents == std::vector<std::int64_t>{2, 3});
  CHECK(info.chunk == std::vector<std::int64_t>{1, 3});
  CHECK(info.filters == std::vector{Filter::shuffle, Filter::gzip, Filter::fletcher32});
}

TEST_CASE("a range of rows is read into the caller's memory") {
  const TemporaryDirectory directory;
  const std::string path = directory / "rows.h5";
  std::vector<std::int32_t> data(1000);
  for (int i = 0; i < 1000; ++i) data[static_cast<std::size_t>(i)] = i;
  {
    Hdf5File file = Hdf5File::create(path, ExitCode::data);
    file.write("flat", data, {}, {.chunk_rows = 64, .gzip = 1});
    file.write("table", data, {100, 10});
    file.close();
  }
  const Hdf5File file = Hdf5File::open_read(path, ExitCode::data);
  const Dataset flat = file.dataset("flat"), table = file.dataset("table");
  std::array<std::int32_t, 20> out{};
  flat.read_rows(60, out);
  CHECK(out[0] == 60);
  CHECK(out[19] == 79);
  table.read_rows(7, out);
  CHECK(out[0] == 70);
  CHECK(out[19] == 89);
  flat.read_rows(1000, std::span<std::int32_t>{});
  CHECK_THROWS_WITH(flat.read_rows(981, out), ContainsSubstring("outside its shape (1000)"));
  CHECK_THROWS_AS(flat.read_rows(-1, out), Error);
  CHECK_THROWS_WITH(table.read_rows(0, std::vector<std::int32_t>(5)), ContainsSubstring("not whole rows"));
}

TEST_CASE("a growing dataset holds every row for any division into pieces") {
  const TemporaryDirectory directory;
  const std::string path = directory / "grow.h5";
  std::vector<std::int64_t> all;
  {
    Hdf5File file = Hdf5File::create(path, ExitCode::data);
    Appender<std::int64_t> flat(file, "flat", {.chunk_rows = 16, .gzip = 1, .shuffle = true, .fletcher32 = true});
    Appender<float> table(file, "table", {.chunk_rows = 3}, 2);
    for (std::int64_t piece : {1, 15, 0, 40, 7, 16, 33}) {
      std::vector<std::int64_t> values;
      for (std::int64_t i = 0; i < piece; ++i) values.push_back(static_cast<std::int64_t>(all.size()) + i);
      all.insert(all.end(), values.begin(), values.end());
      flat.append(values);
    }
    for (int row = 0; row < 7; ++row) table.append(std::vector<float>{float(row), float(-row)});
    CHECK(flat.rows() == 112);
    CHECK(table.rows() == 7);
    flat.finish();
    table.finish();
    file.close();
  }
  const Hdf5File file = Hdf5File::open_read(path, ExitCode::data);
  CHECK(file.read<std::int64_t>("flat", 1000) == all);
  CHECK(file.info("table").extents == std::vector<std::int64_t>{7, 2});
  CHECK(file.read<float>("table", 1000)[13] == -6);
}

TEST_CASE("the same data gives the same bytes at any time") {
  const TemporaryDirectory directory;
  const auto make = [&](const std::string& name) {
    Hdf5File file = Hdf5File::create(directory / name, ExitCode::data, 512);
    file.create_group("group");
    file.write("group/data", std::vector<std::int32_t>(5000, 3), {}, {.chunk_rows = 1000, .gzip = 6, .shuffle = true});
    file.write_text("text", {"one", "two"});
    file.write_attribute("/", "labels", std::vector<std::string>{"x", "yy"});
    file.write_attribute("group", "note", "n");
    file.close();
    return bert_hpc::test::file_bytes(directory / name);
  };
  const std::string first = make("1.h5");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // time stamps in HDF5 are in seconds
  CHECK(first == make("2.h5"));
}

TEST_CASE("contiguous payloads can be filled in place") {
  const TemporaryDirectory directory;
  const std::string path = directory / "offset.h5";
  std::int64_t offset = 0;
  {
    Hdf5File file = Hdf5File::create(path, ExitCode::files, 512);
    offset = file.allocate<float>("payload", {4, 2});
    file.close();
  }
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8};
  std::fstream raw(path, std::ios::in | std::ios::out | std::ios::binary);
  raw.seekp(offset);
  raw.write(reinterpret_cast<const char*>(values.data()), 32);
  raw.close();
  const Hdf5File file = Hdf5File::open_read(path, ExitCode::files);
  CHECK(file.read<float>("payload", 8) == values);
  CHECK(file.dataset("payload").file_offset() == offset);
}

TEST_CASE("a file made in memory has the bytes of a file") {
  const TemporaryDirectory directory;
  Hdf5File memory = Hdf5File::create_in_memory(directory / "image.h5", ExitCode::files);
  memory.write("x", std::vector<double>{1, 2});
  const std::vector<std::byte> image = memory.close_to_bytes();
  CHECK_FALSE(std::filesystem::exists(directory / "image.h5"));
  std::ofstream(directory / "image.h5", std::ios::binary)
      .write(reinterpret_cast<const char*>(image.data()), static_cast<std::streamsize>(image.size()));
  CHECK(Hdf5File::open_read(directory / "image.h5", ExitCode::files).read<double>("x", 2) == std::vector<double>{1, 2});
}

TEST_CASE("a file in memory gives no byte beyond its end, for any result of closing it") {
  // Sizes at which the free space that the library returns at closing spans a boundary of the memory's growth.
  constexpr std::size_t growth = 1 << 16;
  constexpr std::size_t end_of_file = 28;  // in a superblock of version 2 or 3 (HDF5 File Format Specification, II.A)
  const TemporaryDirectory directory;
  const std::string path = directory / "image.h5";
  for (std::size_t size = growth - 9216; size <= growth; size += 256) {
    CAPTURE(size);
    Hdf5File memory = Hdf5File::create_in_memory(path, ExitCode::files);
    const std::vector<std::uint8_t> payload(size, 7);
    memory.write("payload", payload);
    for (int i = 0; i < 12; ++i) memory.write("small" + std::to_string(i), std::vector<double>{1, 2, 3});
    const std::vector<std::byte> image = memory.close_to_bytes();
    std::uint64_t end = 0;
    REQUIRE(image.size() >= end_of_file + sizeof end);
    std::memcpy(&end, image.data() + end_of_file, sizeof end);
    CHECK(image.size() == (end + growth - 1) / growth * growth);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(image.data()), static_cast<std::streamsize>(image.size()));
    CHECK(Hdf5File::open_read(path, ExitCode::files).read<std::uint8_t>("payload", growth) == payload);
  }
}

TEST_CASE("types and sizes of a file's data are checked against the expected ones") {
  const TemporaryDirectory directory;
  const std::string path = directory / "types.h5";
  {
    Hdf5File file = Hdf5File::create(path, ExitCode::data);
    file.write("ids", std::vector<std::int64_t>{1, 2, 3});
    file.write("bytes", std::vector<std::uint8_t>{255});
    file.write("reals", std::vector<double>{1.5});
    file.write_text("words", {"a"});
    file.write_attribute("/", "real", 1.5);
    file.close();
  }
  const Hdf5File file = Hdf5File::open_read(path, ExitCode::data);
  CHECK_THROWS_WITH(file.read<std::int32_t>("ids", 9), ContainsSubstring("holds int64, needed is int32") &&
                                                           ContainsSubstring("'ids'") && ContainsSubstring(path));
  CHECK(file.read<std::int32_t>("bytes", 9)[0] == 255);
  CHECK_THROWS_AS(file.read<float>("reals", 9), Error);
  CHECK_THROWS_AS(file.read<float>("ids", 9), Error);
  CHECK_THROWS_AS(file.read<std::int32_t>("words", 9), Error);
  CHECK_THROWS_AS(file.read_text("ids", 9), Error);
  CHECK_THROWS_AS(file.dataset("ids").expect<std::int64_t>(2), Error);
  CHECK_THROWS_WITH(file.read<std::int64_t>("ids", 2), ContainsSubstring("claims 3 elements"));
  CHECK_THROWS_WITH(file.read<std::int64_t>("absent", 2), ContainsSubstring("no such dataset"));
  CHECK_THROWS_AS(file.read<std::int64_t>("/", 2), Error);
  CHECK_THROWS_AS(file.integer_attribute("/", "real"), Error);
  CHECK_THROWS_AS(file.text_attribute("/", "real"), Error);
  CHECK_THROWS_WITH(file.text_attribute("/", "absent"), ContainsSubstring("no such attribute"));
  CHECK_THROWS_AS(file.dataset("ids").file_offset() + file.dataset("nowhere").file_offset(), Error);
}

TEST_CASE("numbers that take other bits than all of their bytes are not read") {
  const TemporaryDirectory directory;
  const std::string path = directory / "lying.h5";
  const auto make = [&](hid_t base, std::size_t precision, std::size_t offset) {
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t type = H5Tcopy(base);
    REQUIRE(H5Tset_precision(type, precision) >= 0);
    REQUIRE(H5Tset_offset(type, offset) >= 0);
    const hsize_t extent = 3;
    const hid_t space = H5Screate_simple(1, &extent, nullptr), scalar = H5Screate(H5S_SCALAR);
    const hid_t dataset = H5Dcreate2(file, "numbers", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t attribute = H5Acreate2(file, "count", type, scalar, H5P_DEFAULT, H5P_DEFAULT);
    const std::int64_t values[3] = {1, 2, 3};
    REQUIRE(H5Dwrite(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    REQUIRE(H5Awrite(attribute, H5T_NATIVE_INT64, values) >= 0);
    H5Aclose(attribute), H5Dclose(dataset), H5Sclose(space), H5Sclose(scalar), H5Tclose(type), H5Fclose(file);
  };
  make(H5T_STD_I64BE, 64, 0);
  CHECK(Hdf5File::open_read(path, ExitCode::data).read<std::int64_t>("numbers", 9) ==
        std::vector<std::int64_t>{1, 2, 3});
  CHECK(Hdf5File::open_read(path, ExitCode::data).integer_attribute("/", "count") == 1);
  for (const auto& [precision, offset] : {std::pair{63u, 0u}, std::pair{63u, 1u}, std::pair{8u, 40u}}) {
    make(H5T_STD_I64LE, precision, offset);
    const Hdf5File file = Hdf5File::open_read(path, ExitCode::data);
    CHECK_THROWS_WITH(file.read<std::int64_t>("numbers", 9), ContainsSubstring("needed is int64"));
    CHECK_THROWS_WITH(file.integer_attribute("/", "count"), ContainsSubstring("needed is an integer"));
  }
}

TEST_CASE("errors carry the caller's exit code and the reason") {
  const TemporaryDirectory directory;
  const auto code_of = [](auto&& action) {
    try {
      action();
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::success;
  };
  CHECK(code_of([&] { Hdf5File::open_read(directory / "absent.h5", ExitCode::data); }) == ExitCode::data);
  CHECK(code_of([&] { Hdf5File::open_read(directory / "absent.h5", ExitCode::files); }) == ExitCode::files);
  CHECK_THROWS_WITH(Hdf5File::open_read(directory / "absent.h5", ExitCode::data), ContainsSubstring("no such file"));
  CHECK_THROWS_WITH(Hdf5File::open_read(directory.path(), ExitCode::data), ContainsSubstring("not a regular file"));
  std::ofstream(directory / "text.h5") << "this is no HDF5 file at all";
  CHECK_THROWS_WITH(Hdf5File::open_read(directory / "text.h5", ExitCode::data), ContainsSubstring("not an HDF5 file"));
  std::ofstream(directory / "empty.h5").flush();
  CHECK_THROWS_AS(Hdf5File::open_read(directory / "empty.h5", ExitCode::data), Error);
  CHECK_THROWS_AS(Hdf5File::create(directory / "no/such/folder.h5", ExitCode::files), Error);
}

TEST_CASE("claims of a huge size take no memory") {
  const TemporaryDirectory directory;
  const std::string path = directory / "huge.h5";
  {
    Hdf5File file = Hdf5File::create(path, ExitCode::data);
    // Extendable chunked data allocate no space, so the file stays tiny with any claimed size.
    Appender<std::int32_t> chunks(file, "chunks", {.chunk_rows = 1 << 27});
    file.close();
  }
  const Hdf5File file = Hdf5File::open_read(path, ExitCode::data);
  CHECK_THROWS_WITH(file.dataset("chunks"), ContainsSubstring("chunks are larger"));
}
