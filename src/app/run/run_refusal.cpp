// The decisions of run_directory.hpp by what the input of the run there and that of this start say.
#include <algorithm>
#include <map>
#include <sstream>

#include "bert_hpc/app/run/run_directory.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {
namespace {

using State = RunDirectory::State;

/// "table.key" → value, of a resolved input as TomlWriter writes it: one key a line.
std::map<std::string, std::string> keys_of(const std::string& input) {
  std::map<std::string, std::string> keys;
  std::istringstream lines(input);
  std::string line, table;
  while (std::getline(lines, line)) {
    if (line.starts_with('[')) table = line.substr(1, line.find(']') - 1);
    const auto equals = line.find(" = ");
    if (!line.starts_with('[') && equals != std::string::npos)
      keys[table + '.' + line.substr(0, equals)] = line.substr(equals + 3);
  }
  return keys;
}

/// The keys of the run that is there. Where its version lacked a key that is given here, what that version did, if that
/// is not the default.
std::map<std::string, std::string> keys_there(const std::string& input,
                                              const std::map<std::string, std::string>& here) {
  std::map<std::string, std::string> keys = keys_of(input);
  if (here.contains("task.standardize")) keys.try_emplace("task.standardize", "false");
  return keys;
}

}  // namespace

std::vector<std::string> input_differences(const std::string& there, const ResolvedInput& here) {
  // Of a start rather than of the run; the limit is what is left of a job's time, another at each start.
  static const std::vector<std::string> of_a_start = {"run.directory", "run.max_walltime"};
  const auto new_keys = keys_of(here.text), old_keys = keys_there(there, new_keys), defaults = keys_of(here.defaults);
  std::vector<std::string> differences;
  const auto compare = [&](const std::string& key) {
    const auto old_key = old_keys.find(key), new_key = new_keys.find(key);
    const std::string old_value = old_key == old_keys.end() ? "not given" : old_key->second;
    const std::string new_value = new_key == new_keys.end() ? "not given" : new_key->second;
    if (old_value == new_value || std::find(of_a_start.begin(), of_a_start.end(), key) != of_a_start.end()) return;
    const auto usual = defaults.find(key);
    if (old_key == old_keys.end() && usual != defaults.end() && usual->second == new_value) return;
    differences.push_back(core::printable(key, 60) + ": " + core::printable(old_value, 80) + " there, " +
                          core::printable(new_value, 80) + " here");
  };
  for (const auto& [key, value] : new_keys) compare(key);
  for (const auto& [key, value] : old_keys) {
    if (!new_keys.contains(key)) compare(key);
  }
  return differences;
}

std::vector<std::string> lasting_differences(const std::vector<std::string>& differences) {
  // Tables and keys that may differ; "data." because content is compared, not its place.
  static const std::vector<std::string> free = {"run.resume",
                                                "run.peak_gflops",
                                                "run.machine",
                                                "run.watchdog_seconds",
                                                "run.watchdog_limit_seconds",
                                                "model.pretrained",
                                                "model.attention",
                                                "data.train",
                                                "data.validation",
                                                "data.test",
                                                "batch.micro_tokens",
                                                "batch.micro",
                                                "batch.micro_batches",
                                                "batch.chunks",
                                                "parallel.",
                                                "schedule.",
                                                "evaluation.",
                                                "checkpoint.",
                                                "log.",
                                                "debug.",
                                                "optimizer.learning_rate",
                                                "optimizer.beta1",
                                                "optimizer.beta2",
                                                "optimizer.epsilon",
                                                "optimizer.weight_decay",
                                                "optimizer.max_gradient_norm",
                                                "optimizer.max_skipped_steps"};
  std::vector<std::string> lasting;
  for (const std::string& difference : differences) {
    const std::string key = difference.substr(0, difference.find(':'));
    const bool allowed = std::any_of(free.begin(), free.end(), [&](const std::string& name) {
      return name.back() == '.' ? key.starts_with(name) : key == name;
    });
    if (!allowed) lasting.push_back(difference);
  }
  return lasting;
}

std::string refusal(const RunDirectory& found, const std::string& path, const ResolvedInput& resolved, bool overwrite,
                    bool goes_on) {
  if (found.state == State::fresh) return {};
  const std::string where = core::printable(path);
  if (found.state == State::foreign) {
    return "the directory " + where + " holds " + core::listed(found.conflicts, "and", false) +
           ", which no run of bert_hpc wrote: set run.directory to another one.";
  }
  // One that was killed while it began has left nothing to lose.
  if (overwrite || (found.state == State::unfinished && found.conflicts.empty())) return {};
  std::string text = "the directory " + where + " holds a run that ";
  const bool finished = found.state == State::finished;
  text += finished ? "is finished" : "is not finished";
  std::vector<std::string> differences = input_differences(found.input, resolved);
  const bool may_differ = lasting_differences(differences).empty();
  if (!finished && goes_on) {
    differences = lasting_differences(differences);
    if (differences.empty()) return {};
  }
  if (!differences.empty()) {
    constexpr std::size_t most = 5;
    const std::size_t more = differences.size() > most ? differences.size() - most : 0;
    differences.resize(differences.size() - more);
    text += ", and its input differs:";
    for (const std::string& difference : differences) text += "\n     " + difference;
    if (more > 0) text += "\n     and " + std::to_string(more) + " more";
    text += "\n  Set";
  } else {
    text += ", with the same input: set";
  }
  text += " run.directory to another one, or start with --overwrite to replace its results.";
  // What differs is what may: the wish is likely to train on.
  if (finished && may_differ && !differences.empty()) {
    text += " To continue training from one of its checkpoints, also set run.resume to that folder.";
  }
  return text;
}

}  // namespace bert_hpc::app
