#include "app/run/stop_request.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <thread>

#include "bert_hpc/core/environment.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {

namespace {

constexpr int stop_signals[] = {SIGTERM, SIGINT, SIGUSR1};

// Signal handlers can access only static storage, and only lock-free atomics are safe in them.
std::atomic<int> stop_signal_seen = 0;
std::atomic<bool> checkpoint_seen = false;
std::atomic<int> listener_pipe = -1;
std::atomic<bool> by_launcher = false;
std::atomic<std::int64_t> continued_at = 0, launcher_milliseconds = 0;  // since boot; from SIGCONT to its SIGTERM
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free &&
              std::atomic<std::int64_t>::is_always_lock_free);

/// Safe in a signal handler.
std::int64_t milliseconds() {
  struct timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

extern "C" void bert_hpc_note_signal(int signal) {
  const int error = errno;
  if (signal == SIGUSR2) {
    checkpoint_seen = true;
  } else if (signal == SIGCONT) {
    continued_at = milliseconds();
  } else {
    const bool soon = continued_at > 0 && milliseconds() - continued_at < launcher_milliseconds;
    int none = 0;
    if (stop_signal_seen.compare_exchange_strong(none, signal) && signal == SIGTERM && soon) by_launcher = true;
  }
  const auto byte = static_cast<unsigned char>(signal);
  // Writing never blocks: if the pipe is full, the listener has enough bytes to react to.
  if (listener_pipe >= 0) [[maybe_unused]]
    const ssize_t written = ::write(listener_pipe, &byte, 1);
  errno = error;
}

std::string name_of(int signal, const std::string& relayed = {}) {
  if (signal == SIGUSR1 && !relayed.empty()) return relayed;
  switch (signal) {
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT (Ctrl-C)";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGUSR2:
      return "SIGUSR2";
    case SIGCONT:
      return "SIGCONT";
    default:
      return "a signal";
  }
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // interrupted reads and writes continue
  sigaction(signal, &action, nullptr);
}

}  // namespace

double mpirun_kill_interval(const std::function<std::string(const char*)>& variable) {
  if (variable("OMPI_COMM_WORLD_RANK").empty()) return 0;
  const double given = std::atof(variable("OMPI_MCA_odls_base_sigkill_timeout").c_str());
  return given > 0 ? given : 1;
}

std::string relayed_request(const std::function<std::string(const char*)>& variable) {
  std::ifstream file(variable("BERT_HPC_STOP_REASON"));
  std::string line;
  std::getline(file, line);
  constexpr std::size_t longest = 40;
  return core::printable(line, longest);
}

std::string signal_notice(int signal, double kill_interval, std::int64_t step, bool steps, const std::string& relayed) {
  const std::string received = name_of(signal, relayed) + " received: ";
  if (!steps) {
    return received + (signal == SIGUSR2   ? "no checkpoint is written outside of training"
                       : signal == SIGCONT ? "mpirun may be about to end the run"
                                           : "stopping");
  }
  if (signal == SIGUSR2) return received + "writing a checkpoint after this step, then continuing";
  if (signal == SIGCONT) {
    return received +
           "mpirun may be ending this run (Ctrl-C, SIGTERM, timeout or a failed rank) and then kills all ranks in " +
           core::format_number(2 * kill_interval) + " s. Writing " +
           (step > 0 ? "a checkpoint of step " + core::with_commas(step) : "a checkpoint") +
           " now. (Runs that jobs/local.sh starts finish their step first.)";
  }
  if (signal == SIGTERM && kill_interval > 0) {
    return received + "stopping with a checkpoint; mpirun may kill all ranks " + core::format_number(kill_interval) +
           " s after it, before step " + core::with_commas(step + 1) + " is complete";
  }
  return received + "writing a checkpoint after this step, then exiting with status 75";
}

std::string stop_reason(int signal, bool by_launcher, const std::string& relayed) {
  if (by_launcher) return "because mpirun ends the run (Ctrl-C, SIGTERM or timeout)";
  return signal == 0 ? "before the wall-time limit" : "on " + name_of(signal, relayed);
}

StopRequest::StopRequest() : StopRequest(mpirun_kill_interval(core::environment)) {}

StopRequest::StopRequest(double kill_interval) : kill_interval_(kill_interval) {
  stop_signal_seen = 0;
  checkpoint_seen = false;
  by_launcher = false;
  continued_at = 0;
  constexpr double margin = 2;  // of a machine under load
  launcher_milliseconds = static_cast<std::int64_t>(1000 * margin * (kill_interval + 1));
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) == 0) {
    read_end_ = ends[0];
    write_end_ = ends[1];
    ::fcntl(write_end_, F_SETFL, O_NONBLOCK);
  }
  listener_pipe = write_end_;
  for (const int number : stop_signals) handle(number, bert_hpc_note_signal);
  handle(SIGUSR2, bert_hpc_note_signal);
  if (kill_interval_ > 0) handle(SIGCONT, bert_hpc_note_signal);
}

StopRequest::~StopRequest() {
  for (const int number : stop_signals) std::signal(number, SIG_IGN);
  std::signal(SIGUSR2, SIG_IGN);
  std::signal(SIGCONT, SIG_DFL);
  listener_pipe = -1;
  if (read_end_ < 0) return;
  ::close(read_end_);
  ::close(write_end_);
}

bool StopRequest::stop() const {
  return stop_signal_seen != 0;
}

int StopRequest::signal() const {
  return stop_signal_seen;
}

bool StopRequest::is_by_launcher() const {
  return kill_interval_ > 0 && by_launcher;
}

bool StopRequest::take_checkpoint() {
  return checkpoint_seen.exchange(false);
}

bool StopRequest::is_urgent(int signal) const {
  return kill_interval_ > 0 && (signal == SIGCONT || signal == SIGTERM);
}

void StopRequest::end_at_once() {
  for (const int number : stop_signals) std::signal(number, SIG_DFL);
  if (stop()) std::raise(stop_signal_seen);
}

void StopRequest::wake_listener() const {
  const unsigned char end = 0;
  while (write_end_ >= 0 && ::write(write_end_, &end, 1) < 0 && (errno == EAGAIN || errno == EINTR)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // pipe full: wait for the listener to read
  }
}

}  // namespace bert_hpc::app
