// A table of rows with words on each, beside the shards: rejects.tsv, notes.tsv. Internal to the module.
#pragma once

#include <fstream>
#include <string>

#include "bert_hpc/prep/row_stream.hpp"

namespace bert_hpc::prep {

class RowList {
 public:
  /// Begins the file; `words` is the heading of its last column.
  RowList(std::string path, const char* words);

  /// `file`: the source's path.
  void add(const std::string& file, const SourceRow& row, const std::string& words);
  /// Throws Error(files) if anything could not be written.
  void close();

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace bert_hpc::prep
