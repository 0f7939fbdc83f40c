#include <sys/resource.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <csignal>

#include "bert_hpc/core/text_file.hpp"
#include "bert_hpc/io/atomic_write.hpp"
#include "support/temporary_directory.hpp"

using namespace bert_hpc::io;
using bert_hpc::core::Error;
using bert_hpc::core::read_text_file;
using bert_hpc::test::TemporaryDirectory;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a text file is replaced as a whole and leaves no temporary file") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.txt";
  write_text_file(path, "first");
  write_text_file(path, "second, longer");
  CHECK(read_text_file(path, 100) == "second, longer");
  CHECK_FALSE(std::filesystem::exists(name_beside(path)));
}

TEST_CASE("a text file that is not forced to the disk is replaced whole all the same") {
  const TemporaryDirectory directory;
  const std::string path = directory / "file";
  write_text_file(path, "first, longer");
  write_text_file_soon(path, "second");
  CHECK(read_text_file(path, 100) == "second");
  CHECK(!std::filesystem::exists(name_beside(path)));
  CHECK_THROWS_WITH(write_text_file_soon(directory / "no/such/file", "x"), ContainsSubstring("no/such/file"));
}

TEST_CASE("a link with the temporary name is replaced, and its target is kept") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.txt", other = directory / "other.txt";
  write_text_file(other, "of another user");
  std::filesystem::create_symlink(other, name_beside(path));
  write_text_file(path, "ours");
  CHECK(read_text_file(path, 100) == "ours");
  CHECK(read_text_file(other, 100) == "of another user");
}

TEST_CASE("a failed write leaves the old content") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.txt";
  write_text_file(path, "old");
  // A limit on file sizes stands for a full disk: the write fails after part of it.
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  std::string message;
  try {
    write_text_file(path, std::string(5000, 'x'));
  } catch (const Error& error) {
    message = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK_THAT(message, ContainsSubstring("Cannot write") && ContainsSubstring("File too large"));
  CHECK(read_text_file(path, 100) == "old");
  CHECK_FALSE(std::filesystem::exists(name_beside(path)));
}

TEST_CASE("a missing directory is named") {
  const TemporaryDirectory directory;
  CHECK_THROWS_WITH(write_text_file(directory / "no/such/file", "x"), ContainsSubstring("no/such/file"));
  CHECK_THROWS_AS(publish(directory / "never-written"), Error);
}
