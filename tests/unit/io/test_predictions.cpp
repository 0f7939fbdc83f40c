#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/io/hdf5.hpp"
#include "bert_hpc/io/predictions.hpp"
#include "io_support.hpp"

using namespace bert_hpc::io;
using bert_hpc::core::ExitCode;
using test_support::TemporaryDirectory;

TEST_CASE("predictions of classes and of values") {
  const TemporaryDirectory directory;
  const std::string path = directory / "predictions.h5";
  {
    PredictionsWriter writer(path, {"classification", {"a", "b"}, 2, {{"split", "test"}}});
    const std::vector<std::int64_t> index = {5, 3};
    const std::vector<std::int32_t> label = {1, 0}, prediction = {1, 1};
    writer.append(index, label, prediction, std::vector<float>{0.25f, 0.75f, 0.5f, 0.5f});
    writer.append(index, std::span<const std::int32_t>{}, prediction, std::vector<float>{1, 0, 0, 1});
    CHECK_FALSE(std::filesystem::exists(path));
    writer.close();
  }
  {
    const Hdf5File file = Hdf5File::open_read(path, ExitCode::files);
    CHECK(file.integer_attribute("/", "rows") == 4);
    CHECK(file.text_attribute("/", "split") == "test");
    CHECK(file.text_attributes("/", "label_names")[1] == "b");
    CHECK(file.read<std::int64_t>("source_index", 4) == std::vector<std::int64_t>{5, 3, 5, 3});
    CHECK(file.read<std::int32_t>("label", 4) == std::vector<std::int32_t>{1, 0, -1, -1});
    CHECK(file.info("probabilities").extents == std::vector<std::int64_t>{4, 2});
    CHECK(file.read<float>("probabilities", 8)[1] == 0.75f);
  }
  {
    PredictionsWriter writer(path, {"regression", {}, 0, {}});
    writer.append(std::vector<std::int64_t>{1}, std::span<const float>{}, std::vector<float>{6.5f});
    writer.close();
  }
  const Hdf5File file = Hdf5File::open_read(path, ExitCode::files);
  CHECK(std::isnan(file.read<float>("label", 1)[0]));
  CHECK(file.read<float>("prediction", 1)[0] == 6.5f);
}

TEST_CASE("unfinished predictions leave nothing, and what was there stays") {
  const TemporaryDirectory directory;
  const std::string path = directory / "predictions.h5";
  test_support::write_bytes(path, "older");
  { const PredictionsWriter writer(path, {"regression", {}, 0, {}}); }
  CHECK(test_support::file_bytes(path) == "older");
  CHECK_FALSE(std::filesystem::exists(path + ".partial"));
}
