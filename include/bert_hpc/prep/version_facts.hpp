// What bert_hpc_prep is built on, for --version.
#pragma once

#include "bert_hpc/core/version.hpp"

namespace bert_hpc::prep {

/// Compiler and libraries with their versions, and the source of the tokenizer's character table.
core::VersionFacts version_facts();

}  // namespace bert_hpc::prep
