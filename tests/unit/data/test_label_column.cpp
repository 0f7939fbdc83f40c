// Labels of each kind as shards hold them.
#include "bert_hpc/data/label_column.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>

#include "bert_hpc/core/error.hpp"
#include "unit/data/shard_fixture.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;
using data::Label;
using data::LabelColumn;
using tasks::Labels;

namespace {

constexpr io::Storage storage{.chunk_rows = 8, .gzip = 1, .shuffle = true, .fletcher32 = true};

/// Of sequences of four tokens each.
std::vector<std::int64_t> offsets_of(std::size_t sequences) {
  std::vector<std::int64_t> offsets;
  for (std::size_t s = 0; s <= sequences; ++s) offsets.push_back(static_cast<std::int64_t>(4 * s));
  return offsets;
}

/// Writes the labels and reads them again.
LabelColumn written_and_read(Labels kind, std::int64_t names, const std::vector<Label>& labels) {
  const test::ScratchDirectory directory;
  {
    auto file = io::Hdf5File::create(directory / "labels.h5", core::ExitCode::files);
    data::LabelWriter writer(file, kind, names, storage);
    for (const Label& label : labels) writer.append(label);
    writer.finish();
    file.close();
  }
  const auto file = io::Hdf5File::open_read(directory / "labels.h5", core::ExitCode::data);
  const io::Dataset dataset = file.dataset(data::shard_dataset::labels);
  const data::LabelType type = data::label_type(kind, std::ssize(labels), names);
  CHECK(dataset.info().type_class == type.type_class);
  CHECK(dataset.info().element_bytes == type.bytes);
  CHECK(dataset.info().is_signed == type.is_signed);
  CHECK(dataset.info().extents == type.extents);
  return data::read_labels(dataset, kind, offsets_of(labels.size()), names,
                           [](std::int64_t sequence, const std::string& what) {
                             throw core::Error(core::ExitCode::data, "sequence " + std::to_string(sequence) + what);
                           });
}

}  // namespace

TEST_CASE("labels of each kind come back as written") {
  CHECK(written_and_read(Labels::classes, 3, {{.number = 2}, {.number = 0}}).classes ==
        std::vector<std::int32_t>{2, 0});
  const std::vector<float> values = {2.5f, -1};
  CHECK(written_and_read(Labels::values, 0,
                         {{.values = std::span(values).first(1)}, {.values = std::span(values).last(1)}})
            .values == values);
  const std::vector<std::int32_t> two = {2, 0}, one = {1}, none;
  CHECK(written_and_read(Labels::sets, 3, {{.names = two}, {.names = none}, {.names = one}}).sets ==
        std::vector<std::uint8_t>{1, 0, 1, 0, 0, 0, 0, 1, 0});
}

TEST_CASE("values of several columns come back, also unknown ones, but not rows without any") {
  constexpr float unknown = std::numeric_limits<float>::quiet_NaN(), infinite = std::numeric_limits<float>::infinity();
  const std::vector<float> first = {2.5f, unknown}, second = {unknown, -1}, none = {unknown, unknown},
                           bad = {1, infinite};
  const std::vector<float> found = written_and_read(Labels::values, 2, {{.values = first}, {.values = second}}).values;
  REQUIRE(found.size() == 4);
  CHECK((found[0] == 2.5f && std::isnan(found[1]) && std::isnan(found[2]) && found[3] == -1.0f));
  CHECK_THROWS_WITH(written_and_read(Labels::values, 2, {{.values = first}, {.values = none}}),
                    ContainsSubstring("sequence 1 has no label"));
  CHECK_THROWS_WITH(written_and_read(Labels::values, 2, {{.values = bad}}),
                    ContainsSubstring("sequence 0 has an infinite label"));
}

TEST_CASE("sets of many names come back, chunk by chunk") {
  constexpr std::int64_t names = 100000;  // a chunk of 2 rows of the 8 of `storage`
  std::vector<std::int32_t> members(5);
  std::vector<Label> labels;
  for (std::int32_t s = 0; s < 5; ++s) {
    members[static_cast<std::size_t>(s)] = 20000 * s + s;
    labels.push_back({.names = std::span(members).subspan(static_cast<std::size_t>(s), 1)});
  }
  const LabelColumn found = written_and_read(Labels::sets, names, labels);
  REQUIRE(found.sets.size() == 5 * names);
  CHECK(std::count(found.sets.begin(), found.sets.end(), std::uint8_t{1}) == 5);
  for (std::size_t s = 0; s < 5; ++s) CHECK(found.sets[s * names + 20001 * s] == 1);
}

TEST_CASE("a set's element other than 0 and 1 is reported with its sequence and its name's number") {
  const test::ScratchDirectory directory;
  {
    auto file = io::Hdf5File::create(directory / "labels.h5", core::ExitCode::files);
    file.write("/labels", std::vector<std::uint8_t>{1, 0, 0, 1, 7, 0}, {2, 3});
    file.close();
  }
  const auto file = io::Hdf5File::open_read(directory / "labels.h5", core::ExitCode::data);
  const auto fail = [](std::int64_t sequence, const std::string& what) {
    throw core::Error(core::ExitCode::data, "sequence " + std::to_string(sequence) + what);
  };
  CHECK_THROWS_WITH(data::read_labels(file.dataset("/labels"), Labels::sets, offsets_of(2), 3, fail),
                    ContainsSubstring("sequence 1 has 7 for label name 1"));
}

TEST_CASE("spans come back as written, and lie within their sequence") {
  CHECK(written_and_read(Labels::spans, 0, {{.first = 0, .last = 0}, {.first = 1, .last = 3}}).spans ==
        std::vector<std::int32_t>{0, 0, 1, 3});
  CHECK_THROWS_WITH(written_and_read(Labels::spans, 0, {{.first = 1, .last = 4}}),
                    ContainsSubstring("sequence 0 has an answer from token 1 to 4; it must lie within"));
  CHECK_THROWS(written_and_read(Labels::spans, 0, {{.first = 2, .last = 1}}));
  CHECK_THROWS(written_and_read(Labels::spans, 0, {{.first = -1, .last = 1}}));
}

TEST_CASE("planned sets hold one name each") {
  CHECK(data::planned_labels(Labels::sets, 3, 2).sets == std::vector<std::uint8_t>{1, 0, 0, 1, 1, 0});
}
