// An append-only file of text lines, each with its own CRC-32, that survives a kill at any instant: every append is one
// write to the system before it returns, so a killed process loses at most the line it was writing. Reading skips
// lines that are torn or damaged and counts them.
//
// A line is "XXXXXXXX payload\n", the checksum in hexadecimal over the payload; payloads hold no newline.
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
  static constexpr std::int64_t line_bytes = 10;  ///< of a line beside its payload

  /// What is in the file is of no use; errors of opening it are others.
  struct Damaged : core::Error {
    using core::Error::Error;
  };

  /// Starts anew, replacing any file. `title` becomes the first line's payload.
  static Journal create(const std::string& path, const std::string& title);
  /// Continues one made by create(); a torn last line is closed off. Throws when there is none.
  static Journal resume(const std::string& path);

  Journal(Journal&&) noexcept;
  Journal& operator=(Journal&&) noexcept;
  ~Journal();

  void append(std::string_view payload);  ///< throws Error(files), e.g. on a full disk
  void sync();                            ///< forces what was appended to the disk
  std::int64_t bytes() const;             ///< of the file so far: what they are stays as it is

  /// The first bytes into a new file, which is on the disk when this returns unless `buffered`; their CRC-32. Nothing,
  /// and no file, where they cannot be read back. Throws Error(files) where they cannot be written. Any thread; rows
  /// may be appended meanwhile.
  std::optional<std::uint32_t> copy(std::int64_t bytes, const std::string& to,
                                    Durability durability = Durability::forced) const;

  /// Does the file begin with all of the other one's bytes? False where one cannot be read.
  static bool begins_with(const std::string& path, const std::string& beginning);

  /// Calls `line` with each good payload after the title, in order; returns the number of bad lines. Throws
  /// Error(files) when the file cannot be opened, Damaged when it cannot be read or does not begin with `title`.
  static std::int64_t replay(const std::string& path, const std::string& title,
                             const std::function<void(std::string_view)>& line);

 private:
  struct State;
  explicit Journal(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace bert_hpc::io
