// Rows of the source text by the source index of sequences.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/source_rows.hpp"
#include "unit/data/shard_fixture.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

namespace {

struct Shards {
  test::ScratchDirectory directory;
  std::unique_ptr<data::ShardReader> reader;

  /// A shard for each list of source indices; the label of sequence i of all is labels[i].
  Shards(const std::vector<std::vector<std::int64_t>>& sources, const std::vector<std::int32_t>& labels) {
    std::size_t label = 0;
    data::ShardReaderOptions options;
    for (std::size_t file = 0; file < sources.size(); ++file) {
      auto content = test::make_content(tasks::find("classification"), std::ssize(sources[file]), file + 1);
      content.source_index = sources[file];
      for (std::int32_t& own : content.classes) own = labels[label++];
      options.paths.push_back(directory / (std::to_string(file) + ".h5"));
      test::write_shard(options.paths.back(), content);
    }
    options.limits.task = tasks::find("classification");
    options.source_index = true;
    reader = std::make_unique<data::ShardReader>(options);
  }
};

}  // namespace

TEST_CASE("neighbours of one shard with one source index are windows of a row") {
  const Shards shards({{7, 7, 7, 2}, {2, 9, 9}}, {1, 1, 1, 0, 2, 1, 1});
  const data::SourceRows rows(*shards.reader);
  REQUIRE(rows.has_windows());
  REQUIRE(rows.count() == 4);
  const std::vector<std::int64_t> begins = {0, 3, 4, 5, 7};
  for (std::int64_t row = 0; row <= 4; ++row) CHECK(rows.begin(row) == begins[static_cast<std::size_t>(row)]);
  CHECK(std::vector<std::int32_t>(rows.classes().begin(), rows.classes().end()) == std::vector{1, 0, 2, 1});
  CHECK(rows.values().empty());
  CHECK(rows.sets().empty());
}

TEST_CASE("a data set of one sequence for each row has no windows") {
  const Shards shards({{7, 3}, {3}}, {1, 0, 2});
  CHECK_FALSE(data::SourceRows(*shards.reader).has_windows());
}

TEST_CASE("sequences of one row with different labels are an error that names the shard") {
  const Shards shards({{7, 7}}, {1, 0});
  CHECK_THROWS_WITH(data::SourceRows(*shards.reader),
                    ContainsSubstring("0.h5: sequences 0 and 1 have the same '/source_index'"));
}
