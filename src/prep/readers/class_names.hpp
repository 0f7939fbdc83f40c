// Names of classes in files of Hugging Face's datasets, whose labels are numbers. Internal to the module.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bert_hpc::prep {

/// Returns the names of the classes of `column`, which holds numbers of classes (ClassLabel) or lists of them, in the
/// order of the numbers. description: JSON, as datasets write it into a file's metadata under the key "huggingface".
/// Empty if it does not name them.
std::vector<std::string> class_names(std::string_view description, const std::string& column);

}  // namespace bert_hpc::prep
