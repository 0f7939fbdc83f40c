// What the files about a checkpoint's manifest share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bert_hpc/io/checkpoint_file.hpp"

namespace bert_hpc::io::detail {

[[noreturn]] void refuse_manifest(const std::string& path, const std::string& why);
/// "768,768".
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace bert_hpc::io::detail
