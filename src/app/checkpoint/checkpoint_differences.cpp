#include "app/checkpoint/checkpoint_differences.hpp"

#include <algorithm>
#include <sstream>

#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {
namespace {

/// "" if there is no text of this name, as in checkpoints of a version that did not keep it yet.
std::string text_of(const CheckpointTexts& texts, const std::string& name) {
  const auto text = std::find_if(texts.begin(), texts.end(), [&](const auto& entry) { return entry.first == name; });
  return text == texts.end() ? std::string() : text->second;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// "" if the texts agree, else the first line that does not.
std::string first_difference(const std::string& there, const std::string& here) {
  const std::vector<std::string> before = lines_of(there), now = lines_of(here);
  for (std::size_t i = 0; i < std::max(before.size(), now.size()); ++i) {
    const std::string a = i < before.size() ? before[i] : "nothing", b = i < now.size() ? now[i] : "nothing";
    if (a != b) return core::printable(a, 120) + " there, " + core::printable(b, 120) + " here";
  }
  return {};
}

/// "tensor = 2" of a layout's text.
std::string tensor_of(const std::string& layout) {
  const std::size_t begin = layout.find("tensor = ");
  return begin == std::string::npos ? std::string() : layout.substr(begin, layout.find(',', begin) - begin);
}

/// What decides the order in which numbers are added, where that order is promised.
std::vector<std::string> reproducibility_breaks(const CheckpointTexts& there, const CheckpointTexts& here,
                                                const std::vector<KeyChange>& changes) {
  std::vector<std::string> found;
  for (const KeyChange& change : changes) {
    if (change.key == "batch.chunks" || change.key == "model.attention") found.push_back(describe(change));
  }
  const std::string before = tensor_of(text_of(there, "layout")), now = tensor_of(text_of(here, "layout"));
  if (before != now) found.push_back("parallel." + before + " there, " + now + " here");
  for (std::string& line : found) {
    line +=
        ": from here on results are not bitwise identical to the run that made the checkpoint, despite "
        "run.reproducible";
  }
  return found;
}

}  // namespace

CheckpointDifferences checkpoint_differences(const CheckpointTexts& there, const CheckpointTexts& here,
                                             const ResolvedInput& input, bool reproducible) {
  CheckpointDifferences found;
  found.changes = input_changes(text_of(there, "input"), input);
  for (const KeyChange& change : non_resumable(found.changes)) found.incompatibilities.push_back(describe(change));
  const auto compare = [&](const char* name, const std::string& what, std::vector<std::string>& list) {
    const std::string difference = first_difference(text_of(there, name), text_of(here, name));
    if (!difference.empty()) list.push_back(what + ": " + difference);
  };
  // Data that only one of the runs has are a change of the input.
  const auto warn = [&](const char* name, const std::string& what) {
    if (!text_of(there, name).empty() && !text_of(here, name).empty()) compare(name, what, found.warnings);
  };
  compare("data_train", "the training data", found.incompatibilities);
  const std::string best = text_of(here, "best_metric");
  if (!best.empty() && text_of(there, "best_metric") == best) {
    compare("data_validation", "the validation data, which select the best model", found.incompatibilities);
  } else {
    warn("data_validation", "the validation data");
  }
  warn("data_test", "the test data");
  compare("model", "the model", found.incompatibilities);
  compare("dropout", "the random bits of dropout", found.incompatibilities);
  if (reproducible) {
    for (std::string& line : reproducibility_breaks(there, here, found.changes))
      found.warnings.push_back(std::move(line));
  }
  return found;
}

}  // namespace bert_hpc::app
