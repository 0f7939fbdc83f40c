#include "bert_hpc/core/log.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/own_file.hpp"

namespace bert_hpc::core {

namespace {

/// RAII: blocks SIGPIPE in this thread and removes a pending one that a write raised. A closed pipe is then an error
/// code here, and the program's signal handling is unchanged elsewhere.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoPipeSignal() {
    const timespec now{0, 0};
    if (raised && !was_pending_) sigtimedwait(&pipe_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

  bool raised = false;

 private:
  sigset_t pipe_, before_;
  bool was_pending_ = false;
};

/// Returns false if the descriptor accepts no more data.
bool write_all(int descriptor, std::string_view bytes) {
  NoPipeSignal guard;
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      guard.raised = errno == EPIPE;
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

Log::~Log() {
  if (file_ >= 0) ::close(file_);
}

Log::Log(Log&& other) noexcept
    : console_(std::exchange(other.console_, -1)),
      file_(std::exchange(other.file_, -1)),
      most_(other.most_),
      clearing_(std::move(other.clearing_)),
      before_(std::move(other.before_)) {}

Log& Log::operator=(Log&& other) noexcept {
  std::swap(console_, other.console_);
  std::swap(file_, other.file_);
  std::swap(most_, other.most_);
  clearing_.swap(other.clearing_);
  before_.swap(other.before_);
  return *this;
}

void Log::attach(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const int file = open_own_file(path, O_WRONLY | O_CREAT | O_APPEND);
  if (file < 0) throw Error(ExitCode::files, "cannot write " + path + ": " + why_not_own(errno) + '.');
  if (file_ >= 0) ::close(file_);
  file_ = file;
  to_file(std::exchange(before_, {}));
}

void Log::write(LogLevel level, std::string_view text) {
  const std::lock_guard lock(mutex_);
  write_locked(level, text);
}

void Log::warning_at_once(std::string_view text) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) return write_locked(LogLevel::warning, text);
  const std::string line = "warning: " + std::string(text) + '\n';
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

void Log::write_locked(LogLevel level, std::string_view text) {
  if (level > most_ || (console_ < 0 && file_ < 0)) return;
  std::string line = level == LogLevel::error ? "error: " : level == LogLevel::warning ? "warning: " : "";
  line += text;
  if (line.empty() || line.back() != '\n') line += '\n';
  to_console(clearing_ + line);
  to_file(line);
}

void Log::console(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  to_console(bytes);
}

void Log::file_only(std::string_view line) {
  const std::lock_guard lock(mutex_);
  to_file(std::string(line) + '\n');
}

void Log::to_console(std::string_view bytes) {
  if (console_ < 0) return;
  if (!write_all(console_, bytes)) console_ = -1;
}

void Log::to_file(std::string_view bytes) {
  if (file_ < 0) {
    // Bounded: without a file (argument parsing, tests) it would grow without limit.
    if (before_.size() < (1u << 20)) before_ += bytes;
    return;
  }
  if (write_all(file_, bytes)) return;
  const std::string why = std::strerror(errno);
  ::close(file_);
  file_ = -1;
  to_console("warning: cannot write to the log file: " + why + '\n');
}

}  // namespace bert_hpc::core
