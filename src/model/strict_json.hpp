// JSON as this module reads it.
#pragma once

#include "bert_hpc/core/json_strict.hpp"

namespace bert_hpc::model {

using core::in_quotes;
using core::parse_strict_json;
using core::read_strict_json;

}  // namespace bert_hpc::model
