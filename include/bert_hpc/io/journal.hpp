// An append-only file of text lines, each with its own CRC-32, that survives a kill at any instant: each append is one
// write system call that completes before it returns, so a killed process loses at most the line it was writing.
// Reading skips torn or damaged lines and counts them.
//
// A line is "XXXXXXXX payload\n": the CRC-32 of the payload in hexadecimal, then the payload, which holds no newline.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/io/atomic_write.hpp"

namespace bert_hpc::io {

class Journal {
 public:
  static constexpr std::int64_t line_bytes = 10;  ///< bytes of a line in addition to its payload

  /// The content of the file is unusable. Errors of opening the file have other types.
  struct Damaged : core::Error {
    using core::Error::Error;
  };

  /// Starts an empty journal, replacing any file. `title` becomes the first line's payload.
  static Journal create(const std::string& path, const std::string& title);
  /// Continues a journal made by create(); terminates a torn last line. Throws if there is none.
  static Journal resume(const std::string& path);

  Journal(Journal&&) noexcept;
  Journal& operator=(Journal&&) noexcept;
  ~Journal();

  void append(std::string_view payload);  ///< throws Error(files), e.g. on a full disk
  void sync();                            ///< forces the appended lines to the disk
  std::int64_t bytes() const;             ///< current size of the file; these bytes never change

  /// Copies the first `bytes` bytes into a new file and returns their CRC-32. The copy is on the disk when this returns
  /// unless `buffered`. Returns nullopt, and leaves no file, if the bytes cannot be read back; throws Error(files) if
  /// the copy cannot be written. Thread-safe, also while other threads append.
  std::optional<std::uint32_t> copy(std::int64_t bytes, const std::string& to,
                                    Durability durability = Durability::forced) const;

  /// True if the file begins with all bytes of the other file; false if either cannot be read.
  static bool begins_with(const std::string& path, const std::string& beginning);

  /// Calls `line` with each valid payload after the title, in order; returns the number of bad lines. Throws
  /// Error(files) if the file cannot be opened, Damaged if it cannot be read or does not begin with `title`.
  static std::int64_t replay(const std::string& path, const std::string& title,
                             const std::function<void(std::string_view)>& line);

 private:
  struct State;
  explicit Journal(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace bert_hpc::io
