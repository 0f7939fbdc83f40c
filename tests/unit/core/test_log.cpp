#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/core/log.hpp"

using namespace bert_hpc::core;

namespace {

/// A file that vanishes with it.
struct Scratch {
  std::string path = (std::filesystem::temp_directory_path() / ("bert_hpc_log_" + std::to_string(getpid()))).string();
  ~Scratch() { std::filesystem::remove(path); }
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path).rdbuf();
    return all.str();
  }
};

}  // namespace

TEST_CASE("the log goes to its file, with the earlier lines") {
  Scratch scratch;
  int pipes[2];
  REQUIRE(pipe(pipes) == 0);
  Log log(pipes[1]);
  log.info("first");
  log.attach(scratch.path);
  log.warning("second");
  log.debug("never");
  log.console("bar");
  log.file_only("line");
  CHECK(scratch.text() == "first\nwarning: second\nline\n");
  char buffer[100];
  const auto size = read(pipes[0], buffer, sizeof buffer);
  CHECK(std::string(buffer, static_cast<std::size_t>(size)) == "first\nwarning: second\nbar");
  CHECK_THROWS_AS(log.attach("/no/such/directory/log.txt"), Error);
  close(pipes[0]);
  close(pipes[1]);
}

TEST_CASE("a closed reader ends the output to the console, but not the program") {
  Scratch scratch;
  int pipes[2];
  REQUIRE(pipe(pipes) == 0);
  Log log(pipes[1]);
  log.attach(scratch.path);
  close(pipes[0]);
  log.info("without a reader");
  CHECK(!log.console_is_open());
  log.info("still here");
  CHECK(scratch.text() == "without a reader\nstill here\n");
  close(pipes[1]);
}

TEST_CASE("a full disk ends the file and not the program") {
  const int null = open("/dev/null", O_WRONLY);
  Log log(null);
  log.attach("/dev/full");
  log.info("x");
  log.info("y");
  CHECK(log.console_is_open());
  close(null);
}

TEST_CASE("a silent log writes no line") {
  Log log;
  log.info("x");
  Log other = std::move(log);
  other.warning("y");
  CHECK(!other.console_is_open());
}

TEST_CASE("FNV-1a gives the published values") {
  CHECK(fnv1a_64("") == 0xCBF29CE484222325ull);
  CHECK(fnv1a_64("a") == 0xAF63DC4C8601EC8Cull);
  CHECK(fnv1a_64("foobar") == 0x85944171F73967E8ull);
  CHECK(fnv1a_64("bar", fnv1a_64("foo")) == fnv1a_64("foobar"));
}
