// Log: the messages of rank 0. Each message goes immediately to standard output and, once attached, to RUN/log.txt. If
// an output fails (a closed pipe, a full disk), the log stops using it; the run continues. Threads may share a log (the
// watchdog writes while the main thread waits). Not for kernels. Other ranks get a silent Log, so callers need not
// check their rank.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace bert_hpc::core {

enum class LogLevel { error, warning, info, debug };

class Log {
 public:
  /// A silent log.
  Log() = default;
  /// Writes to this descriptor, which the log does not close; -1: to none.
  explicit Log(int descriptor, LogLevel most = LogLevel::info) : console_(descriptor), most_(most) {}
  ~Log();
  Log(Log&& other) noexcept;
  Log& operator=(Log&& other) noexcept;

  /// Also appends to this file, beginning with all messages so far. Throws Error(files) if it cannot be opened.
  void attach(const std::string& path);

  /// One or several lines; warnings begin with "warning: ", errors with "error: ".
  void write(LogLevel level, std::string_view text);
  void info(std::string_view text) { write(LogLevel::info, text); }
  void warning(std::string_view text) { write(LogLevel::warning, text); }
  void debug(std::string_view text) { write(LogLevel::debug, text); }

  /// Writes a warning without waiting for a thread that is stuck inside the log (the disk of its file hangs): the
  /// warning then goes only to standard error.
  void warning_at_once(std::string_view text);

  /// Terminal only (progress bars): adds no line end and does not write to the file.
  void console(std::string_view bytes);
  /// File only (progress lines while the terminal shows a bar).
  void file_only(std::string_view line);

  /// The owner of a progress bar sets the text that clears the bar's line before the next message.
  void set_clearing(std::string clearing) {
    const std::lock_guard lock(mutex_);
    clearing_ = std::move(clearing);
  }

  bool console_is_open() const {
    const std::lock_guard lock(mutex_);
    return console_ >= 0;
  }

 private:
  void write_locked(LogLevel level, std::string_view text);
  void to_console(std::string_view bytes);
  void to_file(std::string_view bytes);

  mutable std::mutex mutex_;  // not moved with the other members
  int console_ = -1;
  int file_ = -1;
  LogLevel most_ = LogLevel::info;
  std::string clearing_;
  std::string before_;  // messages before a file was attached
};

}  // namespace bert_hpc::core
