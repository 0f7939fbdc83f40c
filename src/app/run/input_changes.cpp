#include "app/run/input_changes.hpp"

#include <algorithm>
#include <map>
#include <string_view>

#include "bert_hpc/config/parse_toml.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {
namespace {

std::map<std::string, std::string> keys_of(const std::string& input) {
  const auto keys = config::flat_keys(input);
  return {keys.begin(), keys.end()};
}

/// The keys of the earlier run. Where its version lacked a key that is given now, what that version did, if that is not
/// the default.
std::map<std::string, std::string> keys_before(const std::string& input,
                                               const std::map<std::string, std::string>& now) {
  std::map<std::string, std::string> keys = keys_of(input);
  for (const char* key : {"task.standardize", "model.lora.dora"}) {
    if (now.contains(key)) keys.try_emplace(key, "false");
  }
  if (now.contains("model.lora.train_head")) keys.try_emplace("model.lora.train_head", "true");
  return keys;
}

std::optional<std::string> value_of(const std::map<std::string, std::string>& keys, const std::string& key) {
  const auto found = keys.find(key);
  return found == keys.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

std::string describe(const KeyChange& change) {
  const auto text = [](const std::optional<std::string>& value) {
    return value ? core::printable(*value, 80) : std::string("not given");
  };
  return core::printable(change.key, 60) + ": " + text(change.before) + " there, " + text(change.now) + " here";
}

std::vector<KeyChange> input_changes(const std::string& before, const ResolvedInput& now) {
  const auto new_keys = keys_of(now.text), old_keys = keys_before(before, new_keys), defaults = keys_of(now.defaults);
  std::vector<KeyChange> changes;
  const auto compare = [&](const std::string& key) {
    // A property of a start rather than of the run: the limit is what is left of a job's time.
    if (key == "run.directory" || key == "run.max_walltime") return;
    KeyChange change{key, value_of(old_keys, key), value_of(new_keys, key)};
    if (change.before == change.now) return;
    if (!change.before && value_of(defaults, key) == change.now) return;
    changes.push_back(std::move(change));
  };
  for (const auto& [key, value] : new_keys) compare(key);
  for (const auto& [key, value] : old_keys) {
    if (!new_keys.contains(key)) compare(key);
  }
  return changes;
}

std::vector<KeyChange> non_resumable(const std::vector<KeyChange>& changes) {
  // Keys and whole tables; of [data], a checkpoint compares the content.
  static const std::vector<std::string_view> resumable = {"run.resume",
                                                          "run.kernels",
                                                          "run.epilogues",
                                                          "run.peak_gflops",
                                                          "run.machine",
                                                          "run.node_ranks",
                                                          "run.watchdog_seconds",
                                                          "run.watchdog_limit_seconds",
                                                          "model.pretrained",
                                                          "model.attention",
                                                          "model.recompute",
                                                          "model.lora.adapter",
                                                          "data.train",
                                                          "data.validation",
                                                          "data.test",
                                                          "batch.micro_tokens",
                                                          "batch.micro",
                                                          "batch.micro_batches",
                                                          "batch.chunks",
                                                          "batch.memory",
                                                          "parallel.",
                                                          "precision.weight_gradients",
                                                          "schedule.",
                                                          "evaluation.",
                                                          "checkpoint.",
                                                          "log.",
                                                          "predictions.",
                                                          "debug.",
                                                          "optimizer."};
  std::vector<KeyChange> found;
  for (const KeyChange& change : changes) {
    const bool listed = std::any_of(resumable.begin(), resumable.end(), [&](std::string_view name) {
      return name.back() == '.' ? change.key.starts_with(name) : change.key == name;
    });
    // States belong to the optimizer that made them.
    if (!listed || change.key == "optimizer.name") found.push_back(change);
  }
  return found;
}

}  // namespace bert_hpc::app
