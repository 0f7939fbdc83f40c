// Files that lie or are damaged: every one must end in an Error, quickly, with little memory, or in right values.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <random>

#include "bert_hpc/io/hdf5/hdf5.hpp"
#include "support/temporary_directory.hpp"
#include "support/tests_directory.hpp"

using namespace bert_hpc::io;
using bert_hpc::core::Error;
using bert_hpc::core::ExitCode;
using bert_hpc::test::TemporaryDirectory;
using Catch::Matchers::ContainsSubstring;

namespace {

Hdf5File open_hostile(const std::string& name) {
  const auto folder = bert_hpc::test::tests_directory() / "unit/io/hostile";
  return Hdf5File::open_read((folder / name).string(), ExitCode::data);
}

}  // namespace

TEST_CASE("nothing outside the file is followed") {
  const Hdf5File file = open_hostile("links.h5");
  for (const char* name : {"external", "soft", "circle", "soft/deeper"}) {
    INFO(name);
    CHECK_FALSE(file.exists(name));
    CHECK_THROWS_WITH(file.dataset(name), ContainsSubstring("no such dataset"));
  }
  CHECK_THROWS_WITH(file.dataset("virtual"), ContainsSubstring("in other files"));
  CHECK_THROWS_WITH(file.dataset("elsewhere"), ContainsSubstring("in other files"));
}

TEST_CASE("claimed sizes are compared with the limit before memory is taken") {
  const Hdf5File file = open_hostile("claims.h5");
  CHECK(file.info("contiguous").elements() == std::int64_t{1} << 50);
  CHECK(file.info("contiguous").stored_bytes == 0);
  CHECK_THROWS_WITH(file.read<std::int32_t>("contiguous", 1 << 20), ContainsSubstring("claims 1125899906842624"));
  CHECK_THROWS_WITH(file.read<std::int32_t>("chunked", 1 << 20), ContainsSubstring("claims"));
  CHECK_THROWS_WITH(file.dataset("overflow"), ContainsSubstring("beyond any real size"));
  CHECK_THROWS_WITH(file.read_text("wide_text", 1 << 20), ContainsSubstring("stores only 0 bytes"));
  CHECK_THROWS_WITH(file.read_text("wide_text", 1000), ContainsSubstring("claims 1048576"));
}

TEST_CASE("foreign types are converted without loss or refused") {
  const Hdf5File file = open_hostile("foreign.h5");
  CHECK(file.read<std::int32_t>("big_endian", 4) == std::vector<std::int32_t>{1, 2, 3, -4});
  CHECK(file.read<std::int64_t>("short", 4) == std::vector<std::int64_t>{-7, 7});
  CHECK(file.read<float>("half", 4)[0] == 0.5f);
  CHECK(file.read<std::int64_t>("scalar", 1)[0] == 5);
  CHECK_THROWS_WITH(file.read<std::int64_t>("unsigned", 4), ContainsSubstring("holds uint64, needed is int64"));
  CHECK_THROWS_AS(file.read<std::uint8_t>("short", 4), Error);
  CHECK_THROWS_WITH(file.read<std::int32_t>("compound", 4), ContainsSubstring("another type"));
  CHECK_THROWS_AS(file.read<std::uint8_t>("truth", 4), Error);
  CHECK_THROWS_WITH(file.dataset("null"), ContainsSubstring("no data"));
  CHECK_THROWS_WITH(file.dataset("filter"), ContainsSubstring("filter other than"));
  CHECK_THROWS_AS(file.dataset("group"), Error);
  CHECK_THROWS_AS(file.names("short"), Error);
  CHECK(file.text_attribute("/", "bytes") == "fixed");
  CHECK_THROWS_AS(file.text_attribute("/", "null"), Error);
  CHECK(file.real_attributes("/", "matrix").size() == 4);
}

TEST_CASE("truncated and flipped files give an error or the right values") {
  const TemporaryDirectory directory;
  const std::string path = directory / "f.h5";
  std::vector<std::int32_t> ids(2000);
  std::mt19937 random(3);
  for (auto& id : ids) id = static_cast<std::int32_t>(random() % 1000);
  {
    Hdf5File file = Hdf5File::create(path, ExitCode::data);
    file.write("ids", ids, {}, {.chunk_rows = 500, .gzip = 4, .shuffle = true, .fletcher32 = true});
    file.write_attribute("/", "count", std::int64_t{2000});
    file.close();
  }
  std::string bytes = bert_hpc::test::file_bytes(path);
  int wrong = 0, refused = 0;
  const auto attempt = [&](const std::string& content) {
    bert_hpc::test::write_bytes(path, content);
    try {
      const Hdf5File file = Hdf5File::open_read(path, ExitCode::data);
      if (file.integer_attribute("/", "count") != 2000 || file.read<std::int32_t>("ids", 5000) != ids) ++wrong;
    } catch (const Error&) {
      ++refused;
    }
  };
  for (std::size_t kept = 0; kept < bytes.size(); kept += 97) attempt(bytes.substr(0, kept));
  CHECK(refused == static_cast<int>((bytes.size() + 96) / 97));
  for (int trial = 0; trial < 1000; ++trial) {
    const std::size_t bit = random() % (8 * bytes.size());
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    attempt(bytes);
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
  }
  CHECK(wrong == 0);
}
