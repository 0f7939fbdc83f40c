#include "bert_hpc/app/stop_request.hpp"

#include <csignal>

namespace bert_hpc::app {

namespace {

constexpr int stop_signals[] = {SIGTERM, SIGINT, SIGUSR1};

// Handlers can reach nothing but static storage.
volatile std::sig_atomic_t stop_signal_seen = 0;
volatile std::sig_atomic_t checkpoint_seen = 0;

extern "C" void bert_hpc_note_signal(int signal) {
  if (signal == SIGUSR2) {
    checkpoint_seen = 1;
  } else if (stop_signal_seen == 0) {
    stop_signal_seen = signal;
  }
}

}  // namespace

StopRequest::StopRequest() {
  stop_signal_seen = 0;
  checkpoint_seen = 0;
  struct sigaction action = {};
  action.sa_handler = bert_hpc_note_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // reads and writes in progress go on
  for (const int number : stop_signals) sigaction(number, &action, nullptr);
  sigaction(SIGUSR2, &action, nullptr);
}

StopRequest::~StopRequest() {
  for (const int number : stop_signals) std::signal(number, SIG_IGN);
  std::signal(SIGUSR2, SIG_IGN);
}

bool StopRequest::stop() const {
  return stop_signal_seen != 0;
}

std::string StopRequest::asked() const {
  switch (stop_signal_seen) {
    case SIGTERM:
      return "as asked (SIGTERM)";
    case SIGINT:
      return "as asked (SIGINT)";
    case SIGUSR1:
      return "as asked (SIGUSR1)";
    default:
      return "as asked";
  }
}

bool StopRequest::take_checkpoint() {
  if (checkpoint_seen == 0) return false;
  checkpoint_seen = 0;
  return true;
}

void StopRequest::end_at_once() {
  for (const int number : stop_signals) std::signal(number, SIG_DFL);
  if (stop()) std::raise(stop_signal_seen);
}

}  // namespace bert_hpc::app
