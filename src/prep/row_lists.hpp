// The rows that rank 0 lists beside the shards: those that are rejected, and those with notes. Internal to the module.
#pragma once

#include <optional>
#include <string>

#include "bert_hpc/prep/prep_config.hpp"
#include "bert_hpc/prep/row_table.hpp"
#include "row_list.hpp"
#include "staging.hpp"

namespace bert_hpc::prep {

class RowLists {
 public:
  /// `writes`: this is rank 0, else nothing is done. Both must outlive it. Throws Error(files), as all functions.
  RowLists(const PrepConfig& config, const Staging& staging, bool writes);

  /// Call it for every row of the source, in order. file: its path.
  void add(const SourceRow& row, RowStatus status, const std::string& file);
  void close();

 private:
  const PrepConfig& config_;
  const Staging& staging_;
  std::optional<RowList> rejects_, notes_;
};

}  // namespace bert_hpc::prep
