#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/io/hdf5.hpp"
#include "bert_hpc/io/predictions.hpp"
#include "bert_hpc/io/predictions_csv.hpp"
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

TEST_CASE("predictions as text: quoting, unknown labels, classes without names") {
  const TemporaryDirectory directory;
  const std::string path = directory / "predictions.csv";
  const std::vector<std::int64_t> index = {5, 3};
  const std::vector<std::int32_t> label = {1, -1}, prediction = {1, 2};
  const std::vector<float> probabilities = {0.25f, 0.7f, 0.05f, 0.1f, 0.2f, 0.7f};
  {
    PredictionsCsv file(path, {"a \"b\", c", "$x\nk\xC3\xA4se"}, 3);
    file.append(index, label, prediction, probabilities);
    file.append(index, std::span<const std::int32_t>{}, prediction, probabilities);
    CHECK_FALSE(std::filesystem::exists(path));
    file.close();
  }
  CHECK(
      test_support::file_bytes(path) ==
      "row,label,prediction,probability,\"probability_a \"\"b\"\", c\",\"probability_$x\nk\xC3\xA4se\",probability_2\n"
      "5,\"$x\nk\xC3\xA4se\",\"$x\nk\xC3\xA4se\",0.7,0.25,0.7,0.05\n"
      "3,,2,0.7,0.1,0.2,0.7\n"
      "5,,\"$x\nk\xC3\xA4se\",0.7,0.25,0.7,0.05\n"
      "3,,2,0.7,0.1,0.2,0.7\n");
  {
    PredictionsCsv file(path, {}, 0);
    file.append(index, std::vector<float>{6.5f, std::nanf("")}, std::vector<float>{6.1f, -1e-5f});
    file.append(std::vector<std::int64_t>{7}, std::span<const float>{}, std::vector<float>{0});
    file.close();
  }
  CHECK(test_support::file_bytes(path) == "row,label,prediction\n5,6.5,6.1\n3,,-1e-05\n7,,0\n");
}

TEST_CASE("many classes have no columns of their own") {
  const TemporaryDirectory directory;
  const std::string path = directory / "predictions.csv";
  for (const std::int64_t classes : {PredictionsCsv::most_class_columns, PredictionsCsv::most_class_columns + 1}) {
    PredictionsCsv file(path, {}, classes);
    std::vector<float> probabilities(static_cast<std::size_t>(classes), 0.0f);
    probabilities[4] = 0.5f;
    file.append(std::vector<std::int64_t>{0}, std::vector<std::int32_t>{1}, std::vector<std::int32_t>{4},
                probabilities);
    file.close();
    const std::string text = test_support::file_bytes(path);
    const auto line_end = text.begin() + static_cast<std::ptrdiff_t>(text.find('\n'));
    CHECK(std::count(text.begin(), line_end, ',') + 1 ==
          (classes == PredictionsCsv::most_class_columns ? 4 + classes : 4));
    CHECK(text.find("\n0,1,4,0.5") != std::string::npos);
  }
}

TEST_CASE("unfinished text leaves nothing, and what was there stays") {
  const TemporaryDirectory directory;
  const std::string path = directory / "predictions.csv";
  test_support::write_bytes(path, "older");
  { const PredictionsCsv file(path, {}, 0); }
  CHECK(test_support::file_bytes(path) == "older");
  CHECK_FALSE(std::filesystem::exists(path + ".partial"));
}
