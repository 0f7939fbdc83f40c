// The precision named by a benchmark's argument, as precision.compute names it.
#pragma once

#include <string>

#include "bert_hpc/core/data_type.hpp"
#include "bert_hpc/core/error.hpp"

namespace bert_hpc::test {

/// Elements' type, and whether a GPU rounds the factors of fp32 products to TF32.
struct Compute {
  core::DataType type;
  bool tf32 = false;

  std::string name() const { return tf32 ? "tf32" : core::name_of(type); }
};

inline Compute compute_named(const std::string& name) {
  if (name == "tf32") return {core::DataType::fp32, true};
  for (const core::DataType type : {core::DataType::fp32, core::DataType::bf16, core::DataType::fp16}) {
    if (name == core::name_of(type)) return {type};
  }
  throw core::Error(core::ExitCode::input, "the precision is fp32, tf32, bf16 or fp16, not " + name + ".");
}

}  // namespace bert_hpc::test
