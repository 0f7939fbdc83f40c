// Which label of a classifier of pairs means "relevant", by its name. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace bert_hpc::data {

/// Index of the label that means "relevant", "entailment", "yes", "1" and the like, or whose only neighbour means the
/// opposite; nothing unless there are two names and they tell it.
std::optional<std::size_t> relevant_label(const std::vector<std::string>& names);

}  // namespace bert_hpc::data
