#include "bert_hpc/io/metric_names.hpp"

namespace bert_hpc::io {

std::string metric_label(std::string_view task, std::string_view metric) {
  const bool mean_over_classes = metric == "precision" || metric == "recall" || metric == "f1";
  return (task == "classification" && mean_over_classes ? "macro " : "") + std::string(metric);
}

}  // namespace bert_hpc::io
