// A thread that reacts to signals at once, while the main thread may be in the middle of a long step.
#pragma once

#include <functional>
#include <mutex>
#include <thread>

#include "app/run/stop_request.hpp"

namespace bert_hpc::app {

class SignalListener {
 public:
  /// Calls `heard` for each signal from now on, and for signals already received. `requests` must outlive the listener.
  SignalListener(const StopRequest& requests, std::function<void(int)> heard);
  ~SignalListener();
  SignalListener(const SignalListener&) = delete;
  SignalListener& operator=(const SignalListener&) = delete;

  /// Sets the function to call on the listener's thread after an urgent signal (StopRequest::is_urgent); nullptr: none.
  /// When this returns, no call of the previous function is in progress.
  void on_urgent(std::function<void()> work);

 private:
  void run();

  const StopRequest& requests_;
  std::function<void(int)> heard_;
  std::mutex mutex_;
  std::function<void()> urgent_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace bert_hpc::app
