// The store of tokens between tokenization and shards: every sequence is found, whatever rows have none or many.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <memory>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/rng.hpp"
#include "bert_hpc/prep/token_store.hpp"
#include "support/temporary_directory.hpp"

using bert_hpc::core::NarrowArray;
using bert_hpc::prep::TokenStore;
using bert_hpc::prep::ValueWidth;
using bert_hpc::test::TemporaryDirectory;

namespace {

using Values = std::vector<std::int32_t>;

/// Rows whose sequences have up to five values, all different.
std::vector<std::vector<Values>> random_rows() {
  std::vector<std::vector<Values>> rows(1000);
  std::int32_t value = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::uint64_t bits = bert_hpc::core::mix64(row);
    const bool is_rare = row >= 200 && row < 700;  // more than seven blocks of rows with few sequences
    const std::size_t kinds[] = {0, 1, 1, 2, 1, 0, 70, 1};
    rows[row].resize(is_rare ? (row == 450 ? 1 : 0) : kinds[bits % 8]);
    for (std::size_t s = 0; s < rows[row].size(); ++s) {
      for (std::uint64_t i = 0; i < (bits >> (8 + s % 40)) % 6; ++i) rows[row][s].push_back(value++);
    }
  }
  return rows;
}

/// The stores of `ranks` ranks, open for reading.
std::vector<std::unique_ptr<TokenStore>> stores_of(const std::vector<std::vector<Values>>& rows, int ranks,
                                                   ValueWidth width, const std::string& directory) {
  std::vector<std::unique_ptr<TokenStore>> stores;
  for (int rank = 0; rank < ranks; ++rank) {
    stores.push_back(std::make_unique<TokenStore>(directory, rank, ranks, width));
  }
  NarrowArray counts, lengths;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const int owner = TokenStore::owner(static_cast<std::int64_t>(row), ranks);
    counts.push_back(static_cast<std::int32_t>(rows[row].size()));
    for (const Values& sequence : rows[row]) {
      lengths.push_back(static_cast<std::int32_t>(sequence.size()));
      stores[static_cast<std::size_t>(owner)]->append(sequence);
    }
  }
  for (auto& store : stores) store->finish_writing();
  for (auto& store : stores) store->open_for_reading(counts, lengths);
  return stores;
}

void check_all(const std::vector<std::vector<Values>>& rows, const TokenStore& store) {
  std::int64_t sequence = 0;
  for (std::int64_t row = 0; row < std::ssize(rows); ++row) {
    const std::vector<Values>& own = rows[static_cast<std::size_t>(row)];
    const TokenStore::Range range = store.sequences_of(row);
    REQUIRE(range.begin == sequence);
    REQUIRE(range.end == sequence + std::ssize(own));
    for (const Values& expected : own) {
      REQUIRE(store.row_of(sequence) == row);
      REQUIRE(store.length(sequence) == std::ssize(expected));
      Values found(expected.size());
      store.read(sequence, row, 0, found);
      REQUIRE(found == expected);
      if (!expected.empty()) {
        Values last(expected.size() - 1);
        store.read(sequence, row, 1, last);
        REQUIRE(last == Values(expected.begin() + 1, expected.end()));
      }
      ++sequence;
    }
  }
}

}  // namespace

TEST_CASE("every rank finds the sequences of all rows") {
  const std::vector<std::vector<Values>> rows = random_rows();
  for (const ValueWidth width : {ValueWidth::narrow, ValueWidth::whole}) {
    for (const int ranks : {1, 3, 20}) {  // of 20 ranks four have no rows
      const TemporaryDirectory directory;
      for (const auto& store : stores_of(rows, ranks, width, directory.path())) check_all(rows, *store);
    }
  }
}

TEST_CASE("rows of one sequence each are found") {
  std::vector<std::vector<Values>> rows;
  for (std::int32_t i = 0; i < 300; ++i) rows.push_back({Values(static_cast<std::size_t>(i % 7), 3 * i)});
  const TemporaryDirectory directory;
  check_all(rows, *stores_of(rows, 1, ValueWidth::narrow, directory.path())[0]);
}

TEST_CASE("a value of more than 16 bits does not go into a narrow store") {
  const TemporaryDirectory directory;
  TokenStore store(directory.path(), 0, 1, ValueWidth::narrow);
  store.append(Values{65535});
  CHECK_THROWS(store.append(Values{65536}));
  CHECK_THROWS(store.append(Values{-1}));
}

TEST_CASE("a scratch file of another size is refused") {
  const TemporaryDirectory directory;
  TokenStore store(directory.path(), 0, 1, ValueWidth::whole);
  store.append(Values{1, 2, 3});
  store.finish_writing();
  std::filesystem::resize_file(directory / "tokens-0", 8);
  NarrowArray counts, lengths;
  counts.push_back(1);
  lengths.push_back(3);
  CHECK_THROWS_AS(store.open_for_reading(counts, lengths), bert_hpc::core::Error);
}
