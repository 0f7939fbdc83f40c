#include "bert_hpc/objectives/predictions_csv.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <filesystem>

#include "bert_hpc/core/error.hpp"
#include "support/temporary_directory.hpp"

using bert_hpc::io::PredictionColumn;
using bert_hpc::objectives::PredictionsCsv;
using bert_hpc::test::TemporaryDirectory;
using Integers = std::vector<std::int32_t>;
using Numbers = std::vector<float>;
using Texts = std::vector<std::string>;
using Columns = std::vector<PredictionColumn>;

TEST_CASE("predictions as text: quoting, numbers as short as they can be, NaN as an empty field") {
  const TemporaryDirectory directory;
  const std::string path = directory / "predictions.csv";
  const std::vector<std::int64_t> index = {5, 3};
  const Columns columns = {{"label", Texts{"$x\nk\xC3\xA4se", ""}},
                           {"a \"b\", c", Numbers{0.7f, std::nanf("")}},
                           {"$x\nk\xC3\xA4se", Numbers{-1e-5f, 0}},
                           {"number", Integers{-1, 12}}};
  {
    PredictionsCsv file(path, columns);
    file.append(index, columns);
    CHECK_FALSE(std::filesystem::exists(path));
    file.close();
  }
  CHECK(bert_hpc::test::file_bytes(path) ==
        "row,label,\"a \"\"b\"\", c\",\"$x\nk\xC3\xA4se\",number\n"
        "5,\"$x\nk\xC3\xA4se\",0.7,-1e-05,-1\n"
        "3,,,0,12\n");
}

TEST_CASE("unfinished text leaves no file, and keeps the earlier one") {
  const TemporaryDirectory directory;
  const std::string path = directory / "predictions.csv";
  bert_hpc::test::write_bytes(path, "older");
  { const PredictionsCsv file(path, Columns{}); }
  CHECK(bert_hpc::test::file_bytes(path) == "older");
  CHECK_FALSE(std::filesystem::exists(path + ".partial"));
}
