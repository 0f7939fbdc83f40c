#include "bert_hpc/core/installation.hpp"

#include <stdlib.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>

#include "bert_hpc/core/version.hpp"

namespace fs = std::filesystem;
using namespace bert_hpc::core;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("the folder of inputs and manuals is found from the executable's path") {
  std::string name = (fs::temp_directory_path() / "bert_hpc_tree_XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  const fs::path tree = name;
  fs::create_directories(tree / "prefix/bin");
  CHECK(share_folder_of(tree / "prefix/bin/bert_hpc").empty());
  fs::create_directories(tree / "prefix/share/bert_hpc/input");
  CHECK(share_folder_of(tree / "prefix/bin/bert_hpc").empty());
  fs::create_directories(tree / "prefix/share/bert_hpc/jobs");
  CHECK(share_folder_of(tree / "prefix/bin/bert_hpc") == tree / "prefix/share/bert_hpc");
  // A build folder in a checkout.
  fs::create_directories(tree / "checkout/input");
  fs::create_directories(tree / "checkout/jobs");
  CHECK(share_folder_of(tree / "checkout/build/bert_hpc").empty());
  std::ofstream(tree / "checkout/CMakeLists.txt") << "\n";
  CHECK(share_folder_of(tree / "checkout/build/bert_hpc") == tree / "checkout");
  fs::remove_all(tree);
}

TEST_CASE("the answer to --version names build kind and facts in columns") {
  const std::string text = version_text("bert_hpc", {{"MPI", "Open MPI 4.1.4"}, {"GPU to GPU", ""}});
  CHECK_THAT(text, ContainsSubstring("bert_hpc " + std::string(version()) + " (source revision "));
  CHECK_THAT(text, ContainsSubstring("\n  build         " + std::string(build_kind())));
  CHECK_THAT(text, ContainsSubstring("\n  MPI           Open MPI 4.1.4\n"));
  CHECK_THAT(text, !ContainsSubstring("GPU to GPU"));
}
