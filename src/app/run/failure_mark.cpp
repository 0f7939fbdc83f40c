#include "app/run/failure_mark.hpp"

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <thread>

#include "app/run/run_directory.hpp"
#include "bert_hpc/io/run_lock.hpp"

namespace bert_hpc::app {
namespace {

void write(const std::string& directory, const std::string& lock) {
  try {
    if (io::RunLock::is_held(directory, lock)) mark_failed(directory);
  } catch (const std::exception&) {  // report only the failure that led here
  }
}

}  // namespace

void FailureMark::set(const std::string& directory, const std::string& lock) {
  const std::lock_guard guard(mutex_);
  directory_ = directory;
  lock_ = lock;
  constexpr std::size_t reserve = 16 << 20;
  reserve_ = std::make_unique_for_overwrite<std::byte[]>(reserve);
}

void FailureMark::leave(std::chrono::milliseconds longest) const noexcept {
  try {
    std::string directory, lock;
    {
      const std::lock_guard guard(mutex_);
      directory = directory_;
      lock = lock_;
      reserve_.reset();
    }
    if (lock.empty()) return;
    const auto done = std::make_shared<std::promise<void>>();  // shared, because the caller may stop waiting first
    const std::future<void> written = done->get_future();
    std::thread([directory, lock, done] {
      write(directory, lock);
      done->set_value();
    }).detach();
    written.wait_for(longest);
  } catch (const std::exception&) {  // no thread, no memory: do not delay the end
  }
}

}  // namespace bert_hpc::app
