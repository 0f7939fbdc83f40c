#include <algorithm>

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::tasks {

// Each is defined in the file of its name.
const Task& classification();
const Task& regression();
const Task& masked_lm();
const Task& multi_label();
const Task& question_answering();
const Task& token_classification();
const Task& answer_ranking();

std::vector<std::string> Words::names() const {
  std::vector<std::string> names;
  for (const char* word : all) {
    if (word != nullptr) names.emplace_back(word);
  }
  return names;
}

const std::vector<const Task*>& all() {
  static const std::vector<const Task*> tasks = {
      &classification(),     &multi_label(),    &regression(), &token_classification(),
      &question_answering(), &answer_ranking(), &masked_lm()};
  return tasks;
}

const Task* find(std::string_view name) {
  const auto found = std::find_if(all().begin(), all().end(), [&](const Task* task) { return task->name == name; });
  return found == all().end() ? nullptr : *found;
}

const Task& named(std::string_view name) {
  const Task* const task = find(name);
  return task != nullptr ? *task : *all().front();
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const Task* task : all()) names.emplace_back(task->name);
  return names;
}

std::vector<OwnedKey> keys() {
  std::vector<OwnedKey> keys;
  for (const Task* task : all()) {
    for (const Key& key : task->keys) keys.push_back({key, task});
  }
  std::sort(keys.begin(), keys.end(), [](const OwnedKey& a, const OwnedKey& b) {
    return std::string_view(a.key.name) < std::string_view(b.key.name);
  });
  return keys;
}

std::string names_where(bool (*holds)(const Task&)) {
  std::vector<std::string> names;
  for (const Task* task : all()) {
    if (holds(*task)) names.emplace_back(task->name);
  }
  return core::listed(names, "and");
}

}  // namespace bert_hpc::tasks
