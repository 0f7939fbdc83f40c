#include "app/load_input.hpp"

#include <filesystem>
#include <functional>
#include <vector>

#include "app/engine/model_from_config.hpp"
#include "app/engine/resolved_input.hpp"
#include "app/engine/sentence_modules.hpp"
#include "app/plan/grid_layout.hpp"
#include "bert_hpc/config/machine_description.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/data/file_list.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/ops/update_rule.hpp"

namespace bert_hpc::app {
namespace {

/// Failures of steps that do not need each other.
class Findings {
 public:
  /// False if the step failed.
  bool attempt(const std::function<void()>& step) {
    try {
      step();
      return true;
    } catch (const core::Error& error) {
      found_.push_back(error);
      return false;
    }
  }
  bool empty() const { return found_.empty(); }

  /// All in one, with the code of the first.
  void throw_if_any() const {
    if (found_.empty()) return;
    std::string text = found_.front().what();
    for (std::size_t i = 1; i < found_.size(); ++i) text += std::string("\nAlso: ") + found_[i].what();
    throw core::Error(found_.front().code(), text, found_.front().where());
  }

 private:
  std::vector<core::Error> found_;
};

void look_for_shards(const config::Config& input, bool validates) {
  core::ProblemList problems;
  const auto look = [&](const std::vector<std::string>& paths) {
    for (const std::string& file : data::match_paths(paths, problems)) {
      std::error_code ignored;
      if (!std::filesystem::exists(file, ignored)) problems.add("There is no '" + core::printable(file) + "'.");
    }
  };
  if (input.trains() || input.embeds()) look(input.data.train);
  if (input.searches()) {
    look(input.search.queries);
    look(input.search.corpus);
  }
  if (input.run.mode != "predict") look(input.data.validation);
  look(input.data.test);
  const std::string without =
      validates && input.trains()
          ? " (a plan without them: --validate --tokens N --mean-length L, of the training data)"
          : "";
  problems.throw_if_any(core::ExitCode::data, "files named in the input are missing" + without + ":");
}

}  // namespace

LoadedInput load_input(const std::string& text, const Invocation& invocation, int ranks, bool looks) {
  LoadedInput given;
  config::Config& input = given.config;
  Findings findings;
  std::vector<std::string> overrides = invocation.overrides;
  const bool planned = invocation.planned_tokens > 0;
  if (planned) overrides.emplace_back(R"(data.train=["planned"])");  // the file's may be missing
  config::ReadConfig read = config::read_config_text(
      text, invocation.input_path, overrides, config::default_config(ops::optimizer_inputs(), model::known_families()));
  input = std::move(read.config);
  if (planned && !input.trains()) {
    read.problems.add("--tokens and --mean-length plan a training, but [run] mode = \"" +
                      core::printable(input.run.mode) + "\": set mode = \"train\".");
  }
  const bool readable = findings.attempt([&] { config::throw_if_any(read.problems); });
  if (readable && input.searches()) {
    given.grid = {.data = ranks};
    given.resolved = resolved_search(input);
  } else if (readable) {
    findings.attempt([&] {
      const model::ModelConfig stated = model_from_config(input);
      settle_pooling(input, stated.hidden_size);
      given.grid = grid_layout(input, ranks, stated);
      config::require_valid(input, given.grid.data);
      given.resolved = resolved_input(input, stated);
    });
  }
  if (!findings.empty() && looks && !input.searches()) {
    const std::string folder = input.model.pretrained.value_or("");
    if (!readable && !folder.empty()) findings.attempt([&] { model::read_hf_config(folder); });
  }
  const bool needs_machine = invocation.validate || (looks && !findings.empty());
  if (needs_machine && input.run.machine && !input.searches()) {
    findings.attempt([&] {
      const core::MachineDescription machine = config::described_machine(input);
      if (invocation.validate) given.planned_machine = machine;
    });
  }
  if (looks && !planned && (invocation.validate || !findings.empty())) {
    findings.attempt([&] { look_for_shards(input, invocation.validate); });
  }
  findings.throw_if_any();
  return given;
}

}  // namespace bert_hpc::app
