#include "bert_hpc/objectives/predictions_csv.hpp"

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::objectives {
namespace {

void write_field(io::CsvFile& file, std::int32_t number) {
  file.number(std::int64_t{number});
}
void write_field(io::CsvFile& file, float number) {
  file.number(number);
}
void write_field(io::CsvFile& file, const std::string& text) {
  file.text(text);
}

}  // namespace

PredictionsCsv::PredictionsCsv(const std::string& path, std::span<const io::PredictionColumn> columns) : file_(path) {
  file_.text("row");
  for (const io::PredictionColumn& column : columns) file_.text(column.name);
  file_.end_row();
}

void PredictionsCsv::append(std::span<const std::int64_t> source_index, std::span<const io::PredictionColumn> columns) {
  for (const io::PredictionColumn& column : columns) {
    const std::size_t rows = std::visit([](const auto& values) { return values.size(); }, column.values);
    core::require(rows == source_index.size(), "a column of predictions has all rows");
  }
  for (std::size_t row = 0; row < source_index.size(); ++row) {
    file_.number(source_index[row]);
    for (const io::PredictionColumn& column : columns) {
      std::visit([&](const auto& values) { write_field(file_, values[row]); }, column.values);
    }
    file_.end_row();
  }
}

}  // namespace bert_hpc::objectives
