#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <random>

#include "bert_hpc/io/checksummed_file.hpp"
#include "bert_hpc/io/hdf5/hdf5.hpp"
#include "support/temporary_directory.hpp"

using namespace bert_hpc::io;
using bert_hpc::core::Error;
using bert_hpc::core::ExitCode;
using bert_hpc::test::TemporaryDirectory;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string make_sealed(const std::string& path) {
  Hdf5File file = Hdf5File::create(path, ExitCode::data, seal_bytes);
  file.write("ids", std::vector<std::int32_t>(3000, 42), {}, {.chunk_rows = 1024, .gzip = 4, .fletcher32 = true});
  file.write_attribute("/", "schema", "test");
  file.close();
  seal(path, "shard");
  return bert_hpc::test::file_bytes(path);
}

}  // namespace

TEST_CASE("a sealed file is good and opens") {
  const TemporaryDirectory directory;
  const std::string path = directory / "s.h5";
  const std::string bytes = make_sealed(path);
  CHECK(bytes.starts_with("bert_hpc shard 1\nbytes " + std::to_string(bytes.size()) + "\ncrc32 "));
  CHECK(check_seal(path, "shard").state == FileState::good);
  verify(path, "shard", ExitCode::data);
  CHECK(Hdf5File::open_read(path, ExitCode::data).read<std::int32_t>("ids", 3000).size() == 3000);
  CHECK(make_sealed(directory / "again.h5") == bytes);
}

TEST_CASE("every single-bit flip is found") {
  const TemporaryDirectory directory;
  const std::string path = directory / "s.h5";
  std::string bytes = make_sealed(path);
  std::mt19937 random(7);
  // All of the header's text, then a sample of the rest (a CRC finds every single-bit error).
  for (std::size_t trial = 0; trial < 1200; ++trial) {
    const std::size_t bit = trial < 512 ? trial : random() % (8 * bytes.size());
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    bert_hpc::test::write_bytes(path, bytes);
    INFO("bit " << bit);
    CHECK(check_seal(path, "shard").state != FileState::good);
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
  }
}

TEST_CASE("a tail that is stated can be checked alone") {
  const TemporaryDirectory directory;
  const std::string path = directory / "s.h5", other = directory / "without.h5";
  const std::string bytes = make_sealed(path);
  const auto begin = static_cast<std::int64_t>(bytes.size()) - 100;
  make_sealed(other);
  seal(path, "shard", ExitCode::data, begin);
  const std::string sealed = bert_hpc::test::file_bytes(path);
  CHECK(sealed.find("tail " + std::to_string(begin) + " crc32 ") < seal_bytes);
  const auto state_of = [&](const std::string& where, std::size_t damaged, SealPart part) {
    std::string content = bert_hpc::test::file_bytes(where);
    content[damaged] = static_cast<char>(content[damaged] ^ 1);
    bert_hpc::test::write_bytes(directory / "damaged.h5", content);
    return check_seal(directory / "damaged.h5", "shard", part).state;
  };
  CHECK(check_seal(path, "shard", SealPart::tail).state == FileState::good);
  CHECK(check_seal(path, "shard", SealPart::everything).state == FileState::good);
  const auto tail = static_cast<std::size_t>(begin);
  CHECK(state_of(path, tail, SealPart::tail) == FileState::damaged);
  CHECK(state_of(path, bytes.size() - 1, SealPart::tail) == FileState::damaged);
  CHECK(state_of(path, tail - 1, SealPart::tail) == FileState::good);
  CHECK(state_of(path, tail - 1, SealPart::everything) == FileState::damaged);
  // Every number of the header counts, and a file without a tail is checked as a whole.
  for (std::size_t at = 0; at < 80; ++at) {
    INFO("byte " << at);
    CHECK(state_of(path, at, SealPart::tail) != FileState::good);
  }
  CHECK(state_of(other, tail - 1, SealPart::tail) == FileState::damaged);
  bert_hpc::test::write_bytes(path, sealed.substr(0, sealed.size() - 1));
  CHECK(check_seal(path, "shard", SealPart::tail).state == FileState::truncated);
  bert_hpc::test::write_bytes(path, sealed + "x");
  CHECK(check_seal(path, "shard", SealPart::tail).state == FileState::damaged);
}

TEST_CASE("the check of a seal names the error") {
  const TemporaryDirectory directory;
  const std::string path = directory / "s.h5";
  const std::string bytes = make_sealed(path);
  const auto state_of = [&](const std::string& content) {
    bert_hpc::test::write_bytes(path, content);
    return check_seal(path, "shard").state;
  };
  CHECK(check_seal(directory / "absent.h5", "shard").state == FileState::missing);
  CHECK(check_seal(directory.path(), "shard").state == FileState::foreign);
  for (const std::size_t kept : {std::size_t{0}, std::size_t{5}, std::size_t{30}, std::size_t{511}, std::size_t{512},
                                 bytes.size() / 2, bytes.size() - 1}) {
    INFO("truncated to " << kept);
    CHECK(state_of(bytes.substr(0, kept)) == FileState::truncated);
  }
  CHECK(state_of(bytes + "x") == FileState::damaged);
  CHECK(state_of("some,csv,file\n1,2,3\n") == FileState::foreign);
  CHECK(state_of(std::string(2000, '\0')) == FileState::truncated);
  CHECK(state_of("bert_hpc checkpoint 1\nbytes 10\n" + std::string(1000, ' ')) == FileState::foreign);
  CHECK(state_of("bert_hpc shard 1\nbytes -5\ncrc32 00000000\n" + std::string(1000, '\0')) == FileState::damaged);
  CHECK(state_of("bert_hpc shard 1\nbytes 99999999999999999999999\ncrc32 0\n" + std::string(1000, '\0')) ==
        FileState::damaged);

  Hdf5File foreign = Hdf5File::create(path, ExitCode::data);
  foreign.close();
  CHECK_THROWS_WITH(verify(path, "shard", ExitCode::data), ContainsSubstring("that bert_hpc did not write"));
  Hdf5File unsealed = Hdf5File::create(path, ExitCode::data, seal_bytes);
  unsealed.close();
  CHECK_THROWS_WITH(verify(path, "shard", ExitCode::data), ContainsSubstring("did not finish"));
  bert_hpc::test::write_bytes(path, bytes);
  CHECK_THROWS_WITH(verify(path, "checkpoint", ExitCode::files), ContainsSubstring("needed is 'checkpoint 1'"));
  CHECK_THROWS_AS(seal(directory / "absent.h5", "shard"), Error);
}
