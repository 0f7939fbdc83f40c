// From which checkpoint a training resumes: the newest one that is complete and fits, found by all ranks together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "app/checkpoint/checkpointer.hpp"
#include "app/engine/data_sets.hpp"
#include "app/engine/model_instance.hpp"
#include "app/engine/training_state.hpp"
#include "app/run/run_context.hpp"
#include "bert_hpc/io/checkpoint_file.hpp"
#include "bert_hpc/io/checkpoint_folder.hpp"

namespace bert_hpc::app {

/// What a checkpoint keeps of data, model and layout, to be compared when a run resumes.
CheckpointTexts checkpoint_texts(const RunContext& context, const ModelInstance& model, const DataSets& sets);

/// The folder that [run] resume names, without a slash behind it. A link is followed: the user set it.
std::filesystem::path named_checkpoint(const std::string& resume);

struct Resume {
  io::CheckpointFolder folder;
  io::CheckpointManifest manifest;
  TrainingState state;
  bool same_run = true;               ///< it lies in this run's directory: outputs are continued, else they start empty
  bool next_phase = false;            ///< it is of the run before this one (previous_phase.hpp)
  std::vector<KeyChange> changes;     ///< of the input
  std::vector<std::string> warnings;  ///< changes after which figures or bits are not comparable
  /// The step of the best model so far where that is another run's: it stays there, and this run finds its own best.
  std::optional<std::int64_t> best_elsewhere = std::nullopt;

  std::string path() const { return folder.path_of(manifest.step); }
};

/// Collective. Nothing if the run begins from its start. Damaged checkpoints are passed over with a warning. Throws
/// AgreedError: input where what is found does not fit data, model or input, naming what differs; files where there are
/// checkpoints and none is whole, and where a part of the one to be taken is a link.
std::optional<Resume> choose_checkpoint(const RunContext& context, const ModelInstance& model, DataSets& sets,
                                        std::int64_t total_steps);

/// Collective. The parameters of the best model so far, from the checkpoint that `best` names; false, on every rank,
/// where it is missing or incomplete, with the reason.
bool load_best(const RunContext& context, const Resume& resume, ModelInstance& model, std::mutex& hdf5);

}  // namespace bert_hpc::app
