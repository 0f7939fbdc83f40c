// The directory of a run: may a new run begin in it, what is in the way, and how it begins and ends. RUN/.status holds
// one word, so that the state of a directory is known without HDF5: "running" (also after a kill), "finished",
// "stopped" or "failed" (also by a rank that ended all others alone); RUN/.start names the start that wrote there last.
// Rank 0 calls the functions that touch files; the decisions themselves are pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "app/run/input_changes.hpp"

namespace bert_hpc::app {

/// What a start of the program leaves in RUN/.start, for those that come after it.
struct RunStart {
  std::string job;           ///< Slurm's number of it; "" elsewhere
  int restart = 0;           ///< how often Slurm had queued that job again
  std::string resume;        ///< [run] resume; "never" where no run can resume
  std::string cluster = {};  ///< whose Slurm counts that number; "" elsewhere, and where an older version wrote
};

/// This start; `resume` as there.
RunStart this_start(const std::string& resume);

struct RunDirectory {
  enum class State {
    fresh,       ///< not there, or without results
    unfinished,  ///< a run that was killed, stopped or failed, or that is still running
    finished,
    foreign,  ///< files under our names that no run of this program left
  };
  State state = State::fresh;
  std::string status;                  ///< the word in .status
  std::string input;                   ///< text of its input.toml
  std::vector<std::string> conflicts;  ///< files and folders under names that a run writes
  RunStart start;                      ///< the last one that wrote there
};

RunDirectory inspect_run_directory(const std::string& path);

/// How a start begins.
struct Beginning {
  bool overwrite = false;  ///< what is there goes
  bool own_first = false;  ///< from the directory's own newest checkpoint, where it has one
};

/// A job that Slurm queues again comes with the same command line, and a person submits the same command again: what
/// was asked for once has been done by the start before. --overwrite has, where an earlier start of the same job wrote
/// there last; beginning from the checkpoint that [run] resume names has, where the last start named it too. Pure.
Beginning beginning_there(const RunDirectory& found, const RunStart& now, bool overwrite);

/// Why no run with this resolved input may begin or resume there, and the cure; "" if it may. `resumes`: an unfinished
/// run is to be continued, where no key has changed that must stay (non_resumable()). Pure.
std::string directory_conflict(const RunDirectory& found, const std::string& path, const ResolvedInput& resolved,
                               bool overwrite, bool resumes);

/// Changes nothing. Throws Error(files) if the directory cannot be made or written.
void require_writable(const std::string& path);

/// Before anything is computed; changes nothing. Throws Error(input) if refused, and as require_writable() does.
void check_run_directory(const std::string& path, const ResolvedInput& resolved, bool overwrite, bool resumes);

/// When the first result is about to be written: makes the directory, removes what an earlier run left there (as a
/// whole, by moving it to a temporary folder first), writes input.toml and the status "running". Throws Error(files).
void begin_run(const std::string& path, const std::string& resolved_input, const RunStart& start = {});

/// The same for a run that resumes: what is there stays, log.txt up to its first `log_bytes`; note_start() follows,
/// once nothing is left there of what the run goes back behind. Throws Error(files).
void continue_run(const std::string& path, const std::string& resolved_input, std::int64_t log_bytes);

/// Throws Error(files).
void note_start(const std::string& path, const RunStart& start);

enum class RunEnd { finished, stopped, failed };

/// Writes the status. Throws Error(files).
void end_run(const std::string& path, RunEnd end);

/// The status "failed" instead of "running"; no other is touched. Not forced to the disk. Any rank. Throws
/// Error(files).
void mark_failed(const std::string& path);
/// The same with "stopped", by a run whose state is saved and whose launcher is about to kill it.
void mark_stopped(const std::string& path);

}  // namespace bert_hpc::app
