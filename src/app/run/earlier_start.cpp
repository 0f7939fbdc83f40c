#include "app/run/earlier_start.hpp"

#include "app/run/run_directory.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/io/metrics.hpp"

namespace bert_hpc::app {

std::string earlier_start_note(const std::string& status, std::int64_t last, std::int64_t resumed) {
  const bool failed = status == "failed";
  if ((status != "running" && !failed) || (resumed > 0 && last <= resumed)) return {};
  std::string text = std::string("the earlier start ") + (failed ? "failed" : "was killed");
  text += last > 0 ? " at step " + core::with_commas(last) + " or later" : " before it recorded a step";
  if (resumed == 0) return text + ", without a checkpoint: starting from the beginning";
  return text + "; its last checkpoint is of step " + core::with_commas(resumed) + ": the steps after it are repeated";
}

std::string earlier_start_note(const std::string& directory, std::int64_t resumed) {
  const RunDirectory found = inspect_run_directory(directory);
  if (found.state != RunDirectory::State::unfinished) return {};
  return earlier_start_note(found.status, io::last_recorded_step(directory), resumed);
}

}  // namespace bert_hpc::app
