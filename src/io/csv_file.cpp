#include "bert_hpc/io/csv_file.hpp"

#include <charconv>
#include <cmath>

namespace bert_hpc::io {

std::string csv_field(std::string_view field) {
  if (field.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(field);
  std::string quoted = "\"";
  for (const char c : field) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted += '"';
}

void CsvFile::separate() {
  if (row_has_fields_) file_.write(",");
  row_has_fields_ = true;
}

void CsvFile::text(std::string_view field) {
  separate();
  file_.write(csv_field(field));
}

void CsvFile::number(std::int64_t value) {
  separate();
  file_.write(std::to_string(value));
}

void CsvFile::number(float value) {
  separate();
  if (std::isnan(value)) return;
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  file_.write({digits, static_cast<std::size_t>(end - digits)});
}

void CsvFile::end_row() {
  file_.write("\n");
  row_has_fields_ = false;
}

}  // namespace bert_hpc::io
