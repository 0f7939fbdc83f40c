#include <catch2/catch_test_macros.hpp>

#include "bert_hpc/io/provenance.hpp"
#include "io_support.hpp"

using namespace bert_hpc::io;
using test_support::TemporaryDirectory;

TEST_CASE("a file is named by the FNV-1a hash of its content") {
  const TemporaryDirectory directory;
  test_support::write_bytes(directory / "f", "foobar");
  CHECK(fnv1a_of_file(directory / "f") == "85944171f73967e8");
  CHECK_THROWS_AS(fnv1a_of_file(directory / "absent"), bert_hpc::core::Error);
}

TEST_CASE("times are written in UTC") {
  CHECK(utc_text(0) == "1970-01-01T00:00:00Z");
  CHECK(utc_text(1769860800) == "2026-01-31T12:00:00Z");
  CHECK_FALSE(host_name().empty());
  CHECK(collect_provenance({{"x", "1"}}).back().second == "1");
}
