#include <catch2/catch_test_macros.hpp>

#include "bert_hpc/io/provenance.hpp"
#include "io_support.hpp"

using namespace bert_hpc::io;
using test_support::TemporaryDirectory;

TEST_CASE("fnv-1a gives its authors' test values") {
  // From the reference's own list of test vectors: "", "a", "foobar".
  const auto hash = [](std::string_view text) { return fnv1a(std::as_bytes(std::span(text))); };
  CHECK(hash("") == 0xCBF29CE484222325ull);
  CHECK(hash("a") == 0xAF63DC4C8601EC8Cull);
  CHECK(hash("foobar") == 0x85944171F73967E8ull);
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
