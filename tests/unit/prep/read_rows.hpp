// Rows of a file with given content as texts.
#pragma once

#include <catch2/catch_test_macros.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/prep/readers/row_reader.hpp"
#include "support/temporary_file.hpp"

namespace bert_hpc::test {

using Rows = std::vector<std::string>;

/// "line:value|value", "-" for a column that is not there, "!" for a row that cannot be read, with the reason if
/// `reasons`. An error ends the rows: "error: …", without the file's name.
inline Rows rows(const std::string& content, const prep::RowFormat& format, const std::vector<std::string>& columns,
                 bool reasons = false) {
  const TemporaryFile file(content);
  Rows all;
  try {
    const auto reader = prep::open_rows(file.path(), format, columns);
    prep::Row row;
    while (reader->next(row)) {
      CHECK(row.number == std::ssize(all) + 1);
      std::string text = std::to_string(row.line) + ":";
      for (std::size_t i = 0; i < row.values.size(); ++i) {
        if (i > 0) text += '|';
        text += row.values[i] ? *row.values[i] : "-";
      }
      if (!row.problem.empty()) text = std::to_string(row.line) + ":!" + (reasons ? row.problem : "");
      all.push_back(text);
    }
  } catch (const core::Error& error) {
    CHECK(error.code() == core::ExitCode::data);
    all.push_back("error" + std::string(error.what()).substr(file.path().size()));
  }
  return all;
}

/// The reason why the last row cannot be read.
inline std::string last_reason(const std::string& content, const prep::RowFormat& format,
                               const std::vector<std::string>& columns) {
  return rows(content, format, columns, true).back();
}

}  // namespace bert_hpc::test
