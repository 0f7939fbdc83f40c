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

std::string agreed_stop_reason(const RunContext& context) {
  std::int64_t signal[] = {context.requests.signal()};
  context.world.all_reduce(signal, comm::Reduction::maximum);
  return stop_reason(static_cast<int>(signal[0]));
}

void leave_if_asked(const RunContext& context) {
  if (!context.world.any(context.requests.stop())) return;
  context.log.info("stopped " + agreed_stop_reason(context) + " before the first step: give the same command to start");
  throw Stop{core::ExitCode::stopped};
}

}  // namespace bert_hpc::app
