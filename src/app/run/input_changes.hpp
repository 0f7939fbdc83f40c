// Which keys of the input have changed since a run or a checkpoint was made, and which of them a run can resume with.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace bert_hpc::app {

/// An input as it was resolved, every key that the run uses with its value; and the same where all that older versions
/// left out of this text is at its default, so that their runs can be resumed.
struct ResolvedInput {
  ResolvedInput(std::string all, std::string with_defaults = {})
      : text(std::move(all)), defaults(std::move(with_defaults)) {}
  std::string text, defaults;
};

/// A key whose value has changed; values as TOML, nothing if the key is not given.
struct KeyChange {
  std::string key;  ///< "table.name"
  std::optional<std::string> before, now;

  bool operator==(const KeyChange&) const = default;
};

/// "batch.global: 32 there, 64 here".
std::string describe(const KeyChange& change);

/// Every key that differs between an earlier resolved input and this one, but for those of a start (run.directory,
/// run.max_walltime) and keys that are not given there and have their default here.
std::vector<KeyChange> input_changes(const std::string& before, const ResolvedInput& now);

/// Changes that a run cannot resume with. What may change: layout and micro-batches, the optimizer's rates, the
/// schedule's length, evaluation, checkpoints, log. Data may lie elsewhere: a checkpoint knows their content.
std::vector<KeyChange> non_resumable(const std::vector<KeyChange>& changes);

}  // namespace bert_hpc::app
