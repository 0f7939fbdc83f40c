// RUN/checkpoints: one folder per checkpoint, e.g. step-00000100. A checkpoint is written in a staging folder and
// renamed once it is complete. The text files `latest` and `best` each name one checkpoint and are updated after it
// exists.
//
// All functions here access files and throw Error(files) with the system's reason. One process of a run (rank 0) calls
// those that change something.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/io/atomic_write.hpp"

namespace bert_hpc::io {

std::string checkpoint_name(std::int64_t step);                           ///< "step-00000100"
std::optional<std::int64_t> step_of_checkpoint(const std::string& name);  ///< nullopt for any other name

class CheckpointFolder {
 public:
  /// RUN/checkpoints; touches no file.
  explicit CheckpointFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string path_of(std::int64_t step) const;  ///< path of a complete checkpoint
  std::string staging(std::int64_t step) const;  ///< path of its staging folder

  /// Steps of the complete checkpoints, ascending; empty if there is no folder.
  std::vector<std::int64_t> steps() const;
  /// The step that `latest` or `best` names; nullopt if the file is missing or does not hold a checkpoint's name.
  std::optional<std::int64_t> named(const std::string& pointer) const;

  /// Throws Error(files) if the checkpoint or one of its files is a symbolic link. Links are not followed, because in a
  /// checkpoint from another user they may lead anywhere; the error does not mean that the checkpoint is damaged.
  void refuse_links(std::int64_t step) const;

  /// Removes the unfinished files of a killed run and restores a checkpoint that it was about to replace. What cannot
  /// be removed keeps a name that no run reads.
  void tidy() const;
  /// Makes the folder and tidies it.
  void prepare() const;
  /// Makes the staging folder for a checkpoint's files and returns its path; any number of ranks may call it at once.
  std::string begin(std::int64_t step) const;
  /// Gives a checkpoint its final name. All its files must be written, and on the disk unless `buffered`. prune()
  /// removes an earlier checkpoint of the same step.
  void publish(std::int64_t step, Durability durability = Durability::forced) const;
  /// Removes the staging folder.
  void abandon(std::int64_t step) const;
  /// Makes `pointer` name the checkpoint.
  void point(const std::string& pointer, std::int64_t step, Durability durability = Durability::forced) const;
  void forget(const std::string& pointer) const;
  /// Repairs both pointers for a run at `step`, whose checkpoint exists, with `best` as its best checkpoint so far,
  /// whatever state a kill between the two updates left them in. If the best checkpoint does not exist, `best` is
  /// unchanged unless it names a later step.
  void set_pointers(std::int64_t step, std::optional<std::int64_t> best,
                    Durability durability = Durability::forced) const;
  /// Removes all but the newest `keep` checkpoints and those that `latest` and `best` name. Returns "" or what could
  /// not be removed and why; the next call tries again.
  std::string prune(std::int64_t keep) const;
  /// Renames a checkpoint so that it no longer counts as one of this run; returns the new name.
  std::string set_aside(std::int64_t step) const;
  /// Removes all but the `keep` most recently set aside; returns the removed names.
  std::vector<std::string> prune_set_aside(std::size_t keep) const;

  /// Throws unless this user has this much disk space, plus a margin for the run's other files.
  void require_space(std::int64_t bytes) const;

 private:
  std::string path_;
};

}  // namespace bert_hpc::io
