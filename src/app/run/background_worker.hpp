// A thread that runs tasks one after the other, for work that must not block the caller.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace bert_hpc::app {

class BackgroundWorker {
 public:
  BackgroundWorker() : thread_([this] { run(); }) {}
  /// Drops tasks that have not begun.
  ~BackgroundWorker() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  BackgroundWorker(const BackgroundWorker&) = delete;
  BackgroundWorker& operator=(const BackgroundWorker&) = delete;

  /// `work` must not throw.
  void add(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      work_.push_back(std::move(work));
    }
    changed_.notify_all();
  }
  /// Blocks until all tasks are done.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return work_.empty() && !working_; });
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || !work_.empty(); });
      if (stopping_) return;
      const std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      working_ = true;
      lock.unlock();
      work();
      lock.lock();
      working_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool stopping_ = false, working_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace bert_hpc::app
