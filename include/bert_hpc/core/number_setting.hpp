// A number that an input may state for one of several named methods (an optimizer, say): plain data, so that what
// reads inputs needs not know the methods.
#pragma once

#include <limits>
#include <string>
#include <vector>

namespace bert_hpc::core {

/// A key with its default and the numbers that are allowed; an open end excludes its bound.
struct NumberSetting {
  std::string key;
  double value = 0;  ///< the default
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;
};

/// A method and the keys that only it has.
struct NamedSettings {
  std::string name;
  std::vector<NumberSetting> settings{};
};

}  // namespace bert_hpc::core
