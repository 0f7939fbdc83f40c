#include "app/run/run_context.hpp"

#include "app/run/collective.hpp"

namespace bert_hpc::app {

RunStart start_of(const config::Config& input) {
  return this_start(input.trains() ? input.run.resume : "never");
}

Beginning beginning_of(const RunContext& context) {
  return beginning_there(inspect_run_directory(context.input.run.directory), start_of(context.input),
                         context.invocation.overwrite);
}

void leave_if_asked(const RunContext& context) {
  if (!context.world.any(context.requests.stop())) return;
  context.log.info("stopped " + context.requests.asked() + " before the first step: give the same command to start");
  throw Stop{core::ExitCode::stopped};
}

}  // namespace bert_hpc::app
