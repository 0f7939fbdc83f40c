// The directory of a run: may a new run begin in it, what is in the way, and how it begins and ends. RUN/.status holds
// one word, so that a directory tells its state without HDF5: "running" (also after a kill), "finished", "stopped" or
// "failed". Rank 0 calls the functions that touch files; the decision itself is pure.
#pragma once

#include <string>
#include <vector>

namespace bert_hpc::app {

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
};

RunDirectory inspect_run_directory(const std::string& path);

/// Why no run with this resolved input may begin there, and the cure; "" if it may. Pure.
std::string refusal(const RunDirectory& found, const std::string& path, const std::string& resolved_input,
                    bool overwrite);

/// "batch.global: 32 there, 64 here" for each key of two resolved inputs that differs, run.directory aside. Pure.
std::vector<std::string> input_differences(const std::string& there, const std::string& here);

/// Before anything is computed; changes nothing. Throws Error(input) if refused, Error(files) if the directory cannot
/// be made or written.
void check_run_directory(const std::string& path, const std::string& resolved_input, bool overwrite);

/// When the first result is about to be written: makes the directory, removes what an earlier run left there (as a
/// whole, by moving it aside first), writes input.toml and the status "running". Throws Error(files).
void begin_run(const std::string& path, const std::string& resolved_input);

enum class RunEnd { finished, stopped, failed };

/// Writes the status. Throws Error(files).
void end_run(const std::string& path, RunEnd end);

}  // namespace bert_hpc::app
