// A CSV file for classification with the configuration that reads it, for tests of the first pass over rows.
#pragma once

#include <string>

#include "bert_hpc/prep/row_table.hpp"
#include "bert_hpc/prep/scan_rows.hpp"
#include "support/temporary_file.hpp"

namespace bert_hpc::test {

class CsvText {
 public:
  explicit CsvText(const std::string& content) : file_(content) {
    config.source.format = "csv";
    config.source.files = {file_.path()};
    config.task.name = "classification";
  }
  prep::RowTable scan() const { return prep::scan_rows(config); }
  std::string path() const { return file_.path(); }

  prep::PrepConfig config;

 private:
  TemporaryFile file_;
};

}  // namespace bert_hpc::test
