// Pretraining with pairs of texts: the classes of shards are those of pairs.
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/objectives/objective.hpp"

namespace bert_hpc::objectives {

namespace {

void require_two_classes(const config::Task&, const data::ShardReader& reader) {
  const std::vector<std::string>& names = reader.info().label_names;
  if (names.size() <= 2) return;
  throw core::Error(core::ExitCode::data, "the shards have " + core::counted(std::ssize(names), "label") + ", " +
                                              core::listed(names, "and") +
                                              ", but pairs have two classes: texts in their order, and others.");
}

}  // namespace

Objective masked_lm_pairs() {
  return {.task = tasks::find("masked_lm_pairs"),
          .head = layers::pretraining_head(),
          .check_labels = require_two_classes,
          .set_batches = set_masking};
}

}  // namespace bert_hpc::objectives
