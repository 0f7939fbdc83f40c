#include "app/run/signal_listener.hpp"

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace bert_hpc::app {

SignalListener::SignalListener(const StopRequest& requests, std::function<void(int)> heard)
    : requests_(requests), heard_(std::move(heard)), thread_([this] { run(); }) {}

SignalListener::~SignalListener() {
  requests_.wake_listener();
  thread_.join();
}

void SignalListener::on_urgent(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  urgent_ = std::move(work);
}

void SignalListener::run() {
  for (;;) {
    unsigned char signal = 0;
    const ssize_t got = ::read(requests_.pipe(), &signal, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got != 1 || signal == 0) return;
    heard_(signal);
    const std::lock_guard lock(mutex_);
    if (urgent_ && requests_.is_urgent(signal)) urgent_();
  }
}

}  // namespace bert_hpc::app
