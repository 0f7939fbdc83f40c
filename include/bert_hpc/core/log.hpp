// Log: what rank 0 tells. Each message goes to standard output and, once attached, to RUN/log.txt, at once. A reader of
// the output that goes away (a closed pipe, a full disk) ends that output and never the run. Threads may share one (the
// watchdog's speaks while the main thread waits). Not for kernels. Other ranks get a Log that is silent, so that
// callers need not ask who they are.
#pragma once

#include <mutex>
#include <string>
#include <string_view>

namespace bert_hpc::core {

enum class LogLevel { error, warning, info, debug };

class Log {
 public:
  /// A silent log.
  Log() = default;
  /// Writes to this descriptor (not closed here); -1: to none.
  explicit Log(int descriptor, LogLevel most = LogLevel::info) : console_(descriptor), most_(most) {}
  ~Log();
  Log(Log&& other) noexcept;
  Log& operator=(Log&& other) noexcept;

  /// Writes to this file too, from its end on, and first what was said so far. Throws Error(files) if it cannot be
  /// opened.
  void attach(const std::string& path);

  /// A line, or several; warnings begin with "warning: ", errors with "error: ".
  void write(LogLevel level, std::string_view text);
  void info(std::string_view text) { write(LogLevel::info, text); }
  void warning(std::string_view text) { write(LogLevel::warning, text); }
  void debug(std::string_view text) { write(LogLevel::debug, text); }

  /// A warning that does not wait for a thread that is stuck within the log (its file's disk hangs): then it goes to
  /// standard error alone.
  void warning_at_once(std::string_view text);

  /// For what a terminal alone should see (progress bars): no line end is added and the file does not get it.
  void console(std::string_view bytes);
  /// For what the file alone should get (progress lines while the terminal has a bar).
  void file_only(std::string_view line);

  /// Called by the owner of a progress bar: text that clears the bar's line before the next message.
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

  mutable std::mutex mutex_;  // stays where it is when the rest is moved
  int console_ = -1;
  int file_ = -1;
  LogLevel most_ = LogLevel::info;
  std::string clearing_;
  std::string before_;  // said before a file was attached
};

}  // namespace bert_hpc::core
