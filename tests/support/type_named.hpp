// The type named by a benchmark's --compute.
#pragma once

#include <string>

#include "bert_hpc/core/data_type.hpp"
#include "bert_hpc/core/error.hpp"

namespace bert_hpc::tests {

inline core::DataType type_named(const std::string& name) {
  for (const core::DataType type : {core::DataType::fp32, core::DataType::bf16, core::DataType::fp16}) {
    if (name == core::name_of(type)) return type;
  }
  throw core::Error(core::ExitCode::input, "--compute takes fp32, bf16 or fp16, not " + name + ".");
}

}  // namespace bert_hpc::tests
