#include "app/load_input.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/core/error.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

const std::string run = "[run]\ndirectory = \"out\"\n", task = "[task]\nname = \"classification\"\n",
                  data = "[data]\ntrain = [\"/nowhere/train-*.h5\"]\n", rate = "[optimizer]\nlearning_rate = 1e-4\n",
                  length = "[schedule]\nepochs = 1\n",
                  model = "[model]\nhidden_size = 64\nnum_hidden_layers = 2\nnum_attention_heads = 2\n";

struct Refusal {
  std::string text;
  core::ExitCode code = core::ExitCode::success;
};

Refusal refusal_of(const std::string& text, bool looks = true, int ranks = 1, bool validates = false) {
  app::Invocation invocation;
  invocation.validate = validates;
  invocation.input_path = "in.toml";
  try {
    app::load_input(text, invocation, ranks, looks);
  } catch (const core::Error& error) {
    return {error.what(), error.code()};
  }
  return {};
}

}  // namespace

TEST_CASE("mistakes of several kinds in one input are reported together") {
  const std::string bad =
      run + "sed = 1\n" + task + data + rate +
      "[schedule]\nepochs = 1\nsteps = 2\n[batch]\nglobal = \"3\"\n[model]\npretrained = \"/no\"\n" +
      "[parallel]\nzero = 7\n";
  const Refusal refusal = refusal_of(bad);
  CHECK(refusal.code == core::ExitCode::input);
  for (const char* part :
       {"in.toml:3:1: unknown key \"sed\"", "epochs and steps are both given", "[batch] global must be",
        "zero = 7 is out of range", "there is no folder /no", "No file matches '/nowhere/train-*.h5'"}) {
    CHECK_THAT(refusal.text, ContainsSubstring(part));
  }
  // Only one rank looks for files.
  CHECK_THAT(refusal_of(bad, false).text, !ContainsSubstring("nowhere"));
  CHECK(refusal_of(bad, false).code == core::ExitCode::input);
}

TEST_CASE("an empty model.pretrained is one error, not a missing folder as well") {
  const Refusal refusal = refusal_of(run + task + data + rate + length + "[model]\npretrained = \"\"\n");
  CHECK(refusal.code == core::ExitCode::input);
  CHECK_THAT(refusal.text, ContainsSubstring("pretrained is empty") && !ContainsSubstring("no folder ."));
}

TEST_CASE("errors of the model and the grid are reported together with missing files") {
  const std::string given = run + task + rate + length + data;
  const Refusal model_missing = refusal_of(given + "[model]\npretrained = \"/no\"\n");
  CHECK(model_missing.code == core::ExitCode::files);
  CHECK_THAT(model_missing.text, StartsWith("there is no folder /no"));
  CHECK(model_missing.text.find("no folder /no.") == model_missing.text.rfind("no folder /no."));
  CHECK_THAT(model_missing.text, ContainsSubstring("\nAlso: files named in the input are missing:\n  No file matches"));
  const Refusal grid = refusal_of(given + model + "[parallel]\npipeline = 3\n");
  CHECK(grid.code == core::ExitCode::input);
  CHECK_THAT(grid.text, StartsWith("[parallel]"));
  CHECK_THAT(grid.text, ContainsSubstring("No file matches"));
  const std::string named = run + "machine = \"/no/machine.toml\"\n" + task + rate + length + model +
                            "[parallel]\npipeline = 3\n[data]\ntrain = [\"/nowhere/a.h5\"]\ntest = \"/nowhere/b.h5\"\n";
  for (const char* part : {"/no/machine.toml", "There is no '/nowhere/a.h5'", "There is no '/nowhere/b.h5'"}) {
    CHECK_THAT(refusal_of(named).text, ContainsSubstring(part));
  }
}

TEST_CASE("missing shards without other problems are left to their reader, which checks more") {
  CHECK(refusal_of(run + task + rate + length + data + model).text.empty());
}

TEST_CASE("a plan without its shards says how to plan without any") {
  const std::string given = run + task + rate + length + data + model;
  const Refusal refusal = refusal_of(given, true, 1, true);
  CHECK(refusal.code == core::ExitCode::data);
  CHECK_THAT(refusal.text, ContainsSubstring("No file matches '/nowhere/train-*.h5'") &&
                               ContainsSubstring("--validate --tokens N --mean-length L"));
  CHECK(refusal_of(given, false, 1, true).text.empty());  // only one rank looks for files
}

TEST_CASE("an error is not reported together with problems that it may have caused") {
  const Refusal syntax = refusal_of("[run\n" + task + data);
  CHECK_THAT(syntax.text, ContainsSubstring("not valid TOML"));
  CHECK_THAT(syntax.text, !ContainsSubstring("Also"));
  // The model is not checked against defaults of keys that could not be read.
  const Refusal size = refusal_of(run + task + rate + length + data + model + "vocab_size = 2147483648\n");
  CHECK_THAT(size.text, ContainsSubstring("vocab_size = 2147483648 is out of range: it must be from 1 to 2147483647"));
  CHECK_THAT(size.text, !ContainsSubstring("cannot be created"));
}
