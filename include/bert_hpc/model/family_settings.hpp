// FamilySettings: the numbers of a configuration that its family alone reads, opaque to the rest of the program.
#pragma once

#include <any>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::model {

/// Holds a T of the family's, at its defaults until the family changes it.
class FamilySettings {
 public:
  template <class T>
  const T& as() const {
    static const T defaults{};
    if (!value_.has_value()) return defaults;
    const T* const found = std::any_cast<T>(&value_);
    core::require(found != nullptr, "model: settings of another family");
    return *found;
  }
  template <class T>
  T& change() {
    if (!value_.has_value()) value_.emplace<T>();
    T* const found = std::any_cast<T>(&value_);
    core::require(found != nullptr, "model: settings of another family");
    return *found;
  }

 private:
  std::any value_;
};

}  // namespace bert_hpc::model
