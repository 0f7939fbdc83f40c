// Scanning of JSON without reading its values: where a value ends, and the members of an object. Internal to the
// module.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bert_hpc::prep {

inline constexpr std::string_view json_blanks = " \t\r\n";

/// Finds the end of the JSON value at the front of a text that grows. What is between its brackets is not looked at.
class ValueEnd {
 public:
  /// Whether the end is in `text`: then size() is the value's. Otherwise the scan continues when more follows `text`.
  bool find(std::string_view text);
  std::size_t size() const { return at_; }

 private:
  bool ends_after();
  bool is_escaped(std::string_view text) const;

  std::size_t at_ = 0;
  std::int64_t depth_ = 0;
  bool in_string_ = false;
};

/// The members of the object at the front of a text.
struct FirstMembers {
  /// lists: a list whose first element is a list.
  enum class Kind { value, object, list, lists };

  std::vector<std::string> names;
  std::vector<Kind> kinds;         ///< (names), fewer if the text ends before
  std::vector<std::string> inner;  ///< names in the first member, if it is an object
  bool is_cut = false;             ///< the text ends before the object does, or is no JSON
  bool is_object = false;          ///< a whole object
  bool has_list = false;           ///< the member "data" is a list
};
FirstMembers first_members(std::string_view text);

/// Throws Error(data) for bytes that are no JSON; `offset` counts the bytes before them.
[[noreturn]] void refuse_json(const std::string& file, std::int64_t line, std::int64_t offset, const std::string& why);

}  // namespace bert_hpc::prep
