// The words of this rank's rows by number, in a scratch file, so that text is read once where a vocabulary is trained
// on it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace bert_hpc::prep {

/// Lists of numbers, written and then read one after the other, any number of times. A number takes two bytes, and from
/// 32,768 on four: frequent words come first, and so have small numbers.
class WordSpool {
 public:
  /// Throws Error(files), as all functions.
  explicit WordSpool(std::string path);

  void add(const std::vector<std::int32_t>& numbers);
  /// After the last add(), and before each reading: the next list is the first.
  void rewind();
  /// Appends the next list.
  void read(std::vector<std::int32_t>& numbers);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void write(std::uint32_t number);
  std::uint32_t read();
  std::uint16_t read_unit();
  void flush();
  [[noreturn]] void fail(const char* what) const;

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::vector<std::uint16_t> buffer_;
  std::size_t next_ = 0;    // to be read from buffer_
  bool is_written_ = true;  // else it is read
};

}  // namespace bert_hpc::prep
