#include <catch2/catch_test_macros.hpp>

#include "bert_hpc/io/provenance.hpp"

using namespace bert_hpc::io;

TEST_CASE("times are written in UTC") {
  CHECK(utc_text(0) == "1970-01-01T00:00:00Z");
  CHECK(utc_text(1769860800) == "2026-01-31T12:00:00Z");
  CHECK_FALSE(host_name().empty());
  CHECK(collect_provenance({{"x", "1"}}).back().second == "1");
}
