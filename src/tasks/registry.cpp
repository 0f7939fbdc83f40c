#include <algorithm>
#include <map>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::tasks {

// Each is defined in the file of its name.
const Task& classification();
const Task& regression();
const Task& masked_lm();
const Task& masked_lm_pairs();
const Task& causal_lm();
const Task& multi_label();
const Task& question_answering();
const Task& token_classification();
const Task& answer_ranking();
const Task& embedding();
const Task& class_embedding();

std::vector<std::string> Words::names() const {
  std::vector<std::string> names;
  for (const char* word : all) {
    if (word != nullptr) names.emplace_back(word);
  }
  return names;
}

const std::vector<const Task*>& all() {
  static const std::vector<const Task*> tasks = {
      &classification(),     &multi_label(),     &regression(), &token_classification(),
      &question_answering(), &answer_ranking(),  &embedding(),  &class_embedding(),
      &masked_lm(),          &masked_lm_pairs(), &causal_lm()};
  return tasks;
}

/// Prep asks for each row: lengths are compared first.
const Task* find(std::string_view name) {
  static const std::vector<std::string> known = names();
  const auto found = std::find(known.begin(), known.end(), name);
  return found == known.end() ? nullptr : all()[static_cast<std::size_t>(found - known.begin())];
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

const Key* Task::find_key(std::string_view key) const {
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const Key& own) { return own.name == key; });
  return found == keys.end() ? nullptr : &*found;
}

bool SharedKey::belongs_to(const Task& task) const {
  return std::find(tasks.begin(), tasks.end(), &task) != tasks.end();
}

std::vector<SharedKey> keys() {
  std::map<std::string_view, SharedKey> by_name;
  for (const Task* task : all()) {
    for (const Key& key : task->keys) {
      SharedKey& shared = by_name.try_emplace(key.name, SharedKey{key, {}, {}}).first->second;
      core::require(shared.key.usual.index() == key.usual.index(), "tasks state a shared key with one type");
      shared.tasks.push_back(task);
      const auto* words = std::get_if<Words>(&key.usual);
      if (words == nullptr) continue;
      for (std::string& word : words->names()) {
        if (std::find(shared.words.begin(), shared.words.end(), word) == shared.words.end()) {
          shared.words.push_back(std::move(word));
        }
      }
    }
  }
  std::vector<SharedKey> keys;
  for (auto& [name, key] : by_name) keys.push_back(std::move(key));
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
