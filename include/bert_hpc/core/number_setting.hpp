// Keys that an input may state for one of several named methods (an optimizer) or model families: plain data, so that
// readers of inputs depend neither on methods nor on families.
#pragma once

#include <limits>
#include <string>
#include <vector>

namespace bert_hpc::core {

/// The numbers that are allowed; an open end excludes its bound.
struct NumberLimits {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;
};

/// A key with its default and its limits.
struct NumberSetting {
  std::string key;
  double value = 0;  ///< the default
  NumberLimits limits{};
};

/// A method and the keys that only it has.
struct NamedSettings {
  std::string name;
  std::vector<NumberSetting> settings{};
};

/// A key of [model] that not every family has: a number, or one of some words.
struct FamilyKey {
  std::string key;
  NumberLimits limits{};             ///< of a number
  std::vector<std::string> words{};  ///< the allowed ones; empty: a number
};

/// A model family and the keys that not every family has.
struct KnownFamily {
  std::string name;
  bool attention = true;  ///< it has heads, a feed-forward layer and positions
  std::vector<FamilyKey> keys{};
};

}  // namespace bert_hpc::core
