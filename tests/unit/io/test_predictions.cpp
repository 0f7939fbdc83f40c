#include "bert_hpc/io/predictions.hpp"

#include <catch2/catch_test_macros.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/io/hdf5/hdf5.hpp"
#include "support/temporary_directory.hpp"

using namespace bert_hpc::io;
using bert_hpc::core::ExitCode;
using bert_hpc::test::TemporaryDirectory;
using Integers = std::vector<std::int32_t>;
using Numbers = std::vector<float>;
using Columns = std::vector<PredictionColumn>;

TEST_CASE("columns of predictions, block by block") {
  const TemporaryDirectory directory;
  const std::string path = directory / "predictions.h5";
  const std::vector<std::int64_t> index = {5, 3};
  const Columns none = {{"label", Integers{}}, {"score", Numbers{}}, {"probabilities", Numbers{}, 2}};
  {
    PredictionsWriter writer(path, {"classification", {"a", "b"}, {{"split", "test"}}}, none);
    writer.append(index, Columns{{"label", Integers{1, 0}},
                                 {"score", Numbers{6.5f, 0}},
                                 {"probabilities", Numbers{0.25f, 0.75f, 0.5f, 0.5f}, 2}});
    writer.append(std::span(index).first(1),
                  Columns{{"label", Integers{-1}}, {"score", Numbers{-1}}, {"probabilities", Numbers{1, 0}, 2}});
    CHECK_FALSE(std::filesystem::exists(path));
    writer.close();
  }
  const PredictionsReader reader(path);
  CHECK(reader.info().task == "classification");
  CHECK(reader.info().label_names == std::vector<std::string>{"a", "b"});
  CHECK(reader.attribute("split") == "test");
  CHECK(reader.attribute("none").empty());
  CHECK(reader.rows() == 3);
  CHECK(reader.source_index() == std::vector<std::int64_t>{5, 3, 5});
  CHECK(reader.has("score"));
  CHECK(!reader.has("logits"));
  CHECK(!reader.has_windows());
  CHECK(reader.columns("score") == 1);
  CHECK(reader.columns("probabilities") == 2);
  CHECK(reader.read("score") == Numbers{6.5f, 0, -1});
  CHECK(reader.read("probabilities") == Numbers{0.25f, 0.75f, 0.5f, 0.5f, 1, 0});
  CHECK_THROWS_AS(reader.read("label"), bert_hpc::core::Error);  // not numbers with a fraction
  const Hdf5File file = Hdf5File::open_read(path, ExitCode::files);
  CHECK(file.integer_attribute("/", "rows") == 3);
  CHECK(file.text_attribute("/", "task") == "classification");
  CHECK(file.text_attribute("/", "split") == "test");
  CHECK(file.text_attributes("/", "label_names")[1] == "b");
  CHECK(file.read<std::int64_t>("source_index", 3) == std::vector<std::int64_t>{5, 3, 5});
  CHECK(file.read<std::int32_t>("label", 3) == Integers{1, 0, -1});
  CHECK(file.read<float>("score", 3) == Numbers{6.5f, 0, -1});
  CHECK(file.info("score").extents == std::vector<std::int64_t>{3});
  CHECK(file.info("probabilities").extents == std::vector<std::int64_t>{3, 2});
  CHECK(file.read<float>("probabilities", 6)[1] == 0.75f);
}

TEST_CASE("windows of rows have a group of their own") {
  const TemporaryDirectory directory;
  const std::string path = directory / "predictions.h5";
  const std::vector<std::int64_t> rows = {5, 3}, windows = {5, 5, 3};
  const Columns none = {{"score", Numbers{}}};
  PredictionsWriter writer(path, {"regression", {}, {}}, none);
  writer.add_windows(none);
  writer.append(rows, Columns{{"score", Numbers{2, 7}}});
  writer.append_windows(windows, Columns{{"score", Numbers{1, 3, 7}}});
  writer.close();
  CHECK(PredictionsReader(path).has_windows());
  const Hdf5File file = Hdf5File::open_read(path, ExitCode::files);
  CHECK(file.integer_attribute("/", "rows") == 2);
  CHECK(file.read<float>("score", 2) == Numbers{2, 7});
  CHECK(file.read<std::int64_t>("windows/source_index", 3) == windows);
  CHECK(file.read<float>("windows/score", 3) == Numbers{1, 3, 7});
}

TEST_CASE("unfinished predictions leave no file, and keep the earlier one") {
  const TemporaryDirectory directory;
  const std::string path = directory / "predictions.h5";
  bert_hpc::test::write_bytes(path, "older");
  { const PredictionsWriter writer(path, {"regression", {}, {}}, Columns{{"prediction", Numbers{}}}); }
  CHECK(bert_hpc::test::file_bytes(path) == "older");
  CHECK_FALSE(std::filesystem::exists(path + ".partial"));
}
