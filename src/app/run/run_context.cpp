#include "app/run/run_context.hpp"

#include "app/run/collective.hpp"
#include "bert_hpc/core/environment.hpp"

namespace bert_hpc::app {

RunStart start_of(const config::Config& input) {
  return this_start(input.trains() ? input.run.resume : "never");
}

Beginning beginning_of(const RunContext& context) {
  return beginning_there(inspect_run_directory(context.input.run.directory), start_of(context.input),
                         context.invocation.overwrite);
}

std::string agreed_stop_reason(const RunContext& context) {
  std::int64_t seen[] = {context.requests.signal(), context.requests.is_by_launcher() ? 1 : 0};
  context.world.all_reduce(seen, comm::Reduction::maximum);
  return stop_reason(static_cast<int>(seen[0]), seen[1] != 0, relayed_request(core::environment));
}

void leave_if_asked(const RunContext& context) {
  if (!context.world.any(context.requests.stop())) return;
  context.log.info("stopped " + agreed_stop_reason(context) + " before the first step: give the same command to start");
  throw Stop{core::ExitCode::stopped};
}

}  // namespace bert_hpc::app
