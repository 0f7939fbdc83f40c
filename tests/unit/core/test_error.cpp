// The texts of errors: all problems together, defects with their location, lack of memory with options that need less.
#include "bert_hpc/core/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <new>
#include <stdexcept>
#include <string>

namespace bert_hpc::core {

TEST_CASE("problems of one input are reported together") {
  ProblemList list;
  CHECK_NOTHROW(list.throw_if_any(ExitCode::input, "the input cannot be used:"));
  list.add("one");
  list.add("two");
  try {
    list.throw_if_any(ExitCode::data, "the input cannot be used:");
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::data);
    CHECK(std::string(error.what()) == "the input cannot be used:\n  1. one\n  2. two");
  }
}

TEST_CASE("an exception becomes an error message for the user") {
  const Error own = as_error(Error(ExitCode::files, "the disk is full."), "buy more");
  CHECK(own.code() == ExitCode::files);
  CHECK(std::string(own.what()) == "the disk is full.");
  const Error memory = as_error(std::bad_alloc(), "set batch.micro_tokens lower");
  CHECK(memory.code() == ExitCode::input);
  CHECK(std::string(memory.what()).starts_with("out of memory: "));
  CHECK(std::string(memory.what()).ends_with(", or set batch.micro_tokens lower."));
  const Error defect = as_error(std::logic_error("broken"), "");
  CHECK(defect.code() == ExitCode::internal);
  CHECK(describe("bert_hpc", defect, 3, "node7")
            .starts_with("bert_hpc: error (rank 3 on node7): broken\n  This is a defect"));
  CHECK(describe("bert_hpc_prep", own, -1, "node7") == "bert_hpc_prep: error: the disk is full.\n");
}

}  // namespace bert_hpc::core
