// The values of a JSON file one after the other, whatever holds them: lines (JSON Lines), a list, the list in the
// member "data" of one object, or nothing (objects that take several lines each). The file may have any size: a value
// is cut out by its brackets alone. Internal to the module.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/prep/readers/line_source.hpp"

namespace bert_hpc::prep {

class JsonItems {
 public:
  enum class Holder { lines, objects, list, document };

  /// `members`: names that the objects are expected to have. An outermost object that has one of them is a value
  /// itself; without names, one that cannot be read is a document. item: what messages call a value. Throws as
  /// LineSource does.
  JsonItems(const std::string& file, const std::string& encoding, const std::vector<std::string>& members,
            const char* item);

  /// The next value's bytes, which last until the next call; false after the last, and then the file has been read to
  /// its end. Throws Error(data) with the position if what holds the values is not JSON, or a value is longer than 64
  /// MiB.
  bool next(std::string_view& text);

  Holder holder() const { return holder_; }
  const std::string& file() const { return source_.file(); }
  std::int64_t number() const { return number_; }  ///< of the value, from 1
  std::int64_t line() const { return line_; }      ///< on which the value begins, from 1
  std::int64_t offset() const { return offset_; }  ///< bytes of the file before the value

 private:
  Holder find_holder(const std::vector<std::string>& members);
  bool next_line(std::string_view& text);
  bool next_object(std::string_view& text);
  bool next_element(std::string_view& text);
  bool find_data(bool first);
  void end_file(char bracket);
  char next_byte();
  void take(char byte, const char* otherwise);
  void skip_value();
  std::string_view value(const std::string& name);
  void begin_item();
  [[noreturn]] void refuse(const std::string& why) const;

  LineSource source_;
  std::string item_;
  Holder holder_ = Holder::lines;
  bool at_end_ = false;
  std::int64_t number_ = 0, line_ = 0, offset_ = 0;
};

/// The members of the object at the front of a text.
struct FirstMembers {
  std::vector<std::string> names;
  bool is_cut = false;     ///< the text ends before the object does, or is no JSON
  bool is_object = false;  ///< a whole object
  bool has_list = false;   ///< the member "data" is a list
};
FirstMembers first_members(std::string_view text);

/// Throws Error(data) for bytes that are no JSON; `offset` counts the bytes before them.
[[noreturn]] void refuse_json(const std::string& file, std::int64_t line, std::int64_t offset, const std::string& why);

}  // namespace bert_hpc::prep
