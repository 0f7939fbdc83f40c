#include "bert_hpc/data/embedding_names.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/data/shard_schema.hpp"
#include "support/temporary_file.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using core::ExitCode;

namespace {

/// A file with the texts of rows.
void write_texts(const std::string& path, const std::vector<std::string>& rows) {
  data::NameList names;
  for (const std::string& row : rows) names.add(row);
  io::Hdf5File file = io::Hdf5File::create(path, ExitCode::files);
  file.write(data::shard_dataset::texts, std::vector<std::uint8_t>(names.bytes.begin(), names.bytes.end()));
  file.write(data::shard_dataset::text_offsets, names.offsets);
  file.close();
}

std::vector<std::string> list(const data::NameList& names) {
  std::vector<std::string> all;
  for (std::int64_t i = 0; i < names.count(); ++i) all.emplace_back(names[i]);
  return all;
}

}  // namespace

TEST_CASE("each sequence has the name of its row, also of a part of a shard") {
  const test::TemporaryFile file("");
  write_texts(file.path(), {"a", "", "long name", "d"});
  const io::Hdf5File shard = io::Hdf5File::open_read(file.path(), ExitCode::data);
  const std::vector<std::int64_t> rows{8, 8, 3, 5, 5, 5, 1};
  data::NameList names;
  data::add_row_names(shard, rows, 0, names);
  CHECK(list(names) == std::vector<std::string>{"a", "a", "", "long name", "long name", "long name", "d"});
  data::NameList part;
  data::add_row_names(shard, std::span(rows).first(6), 1, part);
  CHECK(list(part) == std::vector<std::string>{"a", "", "long name", "long name", "long name"});
  data::add_row_names(shard, rows, 6, part);
  CHECK(part[5] == "d");
  data::add_row_names(shard, rows, 7, part);
  CHECK(part.count() == 6);
  const std::vector<std::int64_t> more{8, 3, 5, 1, 7};
  CHECK_THROWS_MATCHES(data::add_row_names(shard, more, 0, part), core::Error,
                       MessageMatches(ContainsSubstring("hold fewer rows")));
}
