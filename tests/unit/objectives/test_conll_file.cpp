#include "bert_hpc/objectives/conll_file.hpp"

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "bert_hpc/core/error.hpp"
#include "support/temporary_directory.hpp"

using bert_hpc::objectives::ConllFile;
using bert_hpc::test::TemporaryDirectory;

namespace {

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("words stand in lines with their tags, and no word is two columns") {
  const TemporaryDirectory directory;
  const std::string path = directory / "predictions.conll";
  {
    ConllFile file(path);
    file.add("Größe", {}, "B-X", "O");
    file.add("New York\t", {}, "I-X", "B-X");
    file.end_sentence();
    file.add("", {}, "", "O");
    file.add("a", 0.98765432f, "I-X", "B-X");
    file.add("b", 1e-9f, "", "O");
    file.end_sentence();
    CHECK_FALSE(std::filesystem::exists(path));
    file.close();
  }
  CHECK(content_of(path) == "Größe B-X O\nNew_York_ I-X B-X\n\n_ O\na 0.987654 I-X B-X\nb 0.000000 O\n\n");
}

TEST_CASE("a file of predictions that is not closed leaves nothing") {
  const TemporaryDirectory directory;
  { ConllFile(directory / "predictions.conll").add("a", {}, "O", "O"); }
  CHECK(std::filesystem::is_empty(std::filesystem::path(directory / "x").parent_path()));
  CHECK_THROWS_AS(ConllFile(directory / "missing/predictions.conll"), bert_hpc::core::Error);
}
