// RUN/checkpoints: one folder for each checkpoint, step-00000100, which bears that name only once it is whole; before
// it is written in a folder aside. The text files `latest` and `best` name one each and switch after it is there.
//
// All functions here touch files and throw Error(files) with the system's reason; one process of a run (rank 0) calls
// those that change something.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bert_hpc/io/atomic_write.hpp"

namespace bert_hpc::io {

std::string checkpoint_name(std::int64_t step);                           ///< "step-00000100"
std::optional<std::int64_t> step_of_checkpoint(const std::string& name);  ///< nothing for any other name

class CheckpointFolder {
 public:
  /// RUN/checkpoints; nothing is touched yet.
  explicit CheckpointFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string place(std::int64_t step) const;  ///< of a whole checkpoint
  std::string aside(std::int64_t step) const;  ///< where it is written before

  /// Steps of the checkpoints that bear their name, ascending; none where there is no folder.
  std::vector<std::int64_t> steps() const;
  /// What `latest` or `best` names; nothing where there is none or it is not a checkpoint's name.
  std::optional<std::int64_t> named(const std::string& pointer) const;

  /// Throws Error(files) where the checkpoint, or a file of it, is a link. Links are not followed, as a checkpoint that
  /// somebody else made may lead anywhere with them; yet nothing of it is damaged.
  void refuse_links(std::int64_t step) const;

  /// Removes what a killed run left unfinished there, and puts back what it was about to replace. What cannot be
  /// removed stays under a name that no run looks at.
  void tidy() const;
  /// Makes the folder, and tidies.
  void prepare() const;
  /// Where the files of a checkpoint are written: makes it, any number of ranks at once.
  std::string begin(std::int64_t step) const;
  /// All files are there, and on the disk unless `buffered`: gives it its name. A checkpoint of that step from before
  /// goes with prune().
  void publish(std::int64_t step, Durability durability = Durability::forced) const;
  /// Drops what was written aside.
  void abandon(std::int64_t step) const;
  /// `pointer` names the checkpoint from now on.
  void point(const std::string& pointer, std::int64_t step, Durability durability = Durability::forced) const;
  void forget(const std::string& pointer) const;
  /// The run is at `step`, whose checkpoint is there, and knows that the one of `best` is the best so far: `best` and
  /// `latest` name these, in whatever state a kill between the two left them. Where the best is not there, `best` stays
  /// unless it names a later step.
  void set_pointers(std::int64_t step, std::optional<std::int64_t> best,
                    Durability durability = Durability::forced) const;
  /// Removes all but the newest `keep` and those that `latest` and `best` name. "" or what could not be removed, and
  /// why: the next call tries again.
  std::string prune(std::int64_t keep) const;
  /// Renames a checkpoint so that nobody takes it for one of this run any more; returns the new name.
  std::string set_aside(std::int64_t step) const;
  /// Removes all that was set aside but the `keep` that were so last; returns their names.
  std::vector<std::string> prune_set_aside(std::size_t keep) const;

  /// Throws unless the disk has this much room for this user, and room to spare for what else a run writes.
  void require_space(std::int64_t bytes) const;

 private:
  std::string path_;
};

}  // namespace bert_hpc::io
