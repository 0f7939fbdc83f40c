// What people read for the names of metrics, which in files stay short: the mean over classes is "macro f1" in the log
// and in pictures, and the dataset is /evaluations/SPLIT/f1.
#pragma once

#include <string>
#include <string_view>

namespace bert_hpc::io {

/// "macro precision", "macro recall" and "macro f1" for a classification's; any other name as it is.
std::string metric_label(std::string_view task, std::string_view metric);

}  // namespace bert_hpc::io
