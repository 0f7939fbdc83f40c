#include "bert_hpc/app/stop_request.hpp"

#include <iterator>

namespace bert_hpc::app {

namespace {

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
  for (std::size_t i = 0; i < std::size(signals_); ++i) sigaction(signals_[i], &action, &before_[i]);
}

void StopRequest::ignore_from_now_on() {
  restores_ = false;
  for (const int number : signals_) std::signal(number, SIG_IGN);
}

StopRequest::~StopRequest() {
  if (!restores_) return;
  for (std::size_t i = 0; i < std::size(signals_); ++i) sigaction(signals_[i], &before_[i], nullptr);
}

bool StopRequest::stop() const {
  return stop_signal_seen != 0;
}

int StopRequest::stop_signal() const {
  return stop_signal_seen;
}

bool StopRequest::take_checkpoint() {
  if (checkpoint_seen == 0) return false;
  checkpoint_seen = 0;
  return true;
}

}  // namespace bert_hpc::app
