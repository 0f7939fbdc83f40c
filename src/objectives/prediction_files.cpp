#include "bert_hpc/objectives/prediction_files.hpp"

#include "bert_hpc/core/hash.hpp"

namespace bert_hpc::objectives {
namespace {

io::PredictionsInfo info_of(const PredictionsFacts& facts, const data::ShardReader& reader) {
  io::PredictionsInfo info;
  info.task = facts.task.name;
  info.attributes = {{"split", facts.split}, {data_hash_attribute, core::hash_of_lines(reader.seals())}};
  if (!reader.info().label_column.empty()) info.attributes.emplace_back("label_column", reader.info().label_column);
  if (facts.task.names_outputs(facts.label_names.size())) info.label_names = facts.label_names;
  return info;
}

}  // namespace

PredictionTables::PredictionTables(const PredictionsFacts& facts, const data::ShardReader& reader,
                                   const PredictedRows& columns, std::mutex& hdf5)
    : reader_(reader), hdf5_(hdf5), text_(facts.directory + "/predictions.csv", columns.shown) {
  const std::lock_guard lock(hdf5_);
  file_ = std::make_unique<io::PredictionsWriter>(facts.directory + "/predictions.h5", info_of(facts, reader),
                                                  columns.stored);
}

PredictionTables::~PredictionTables() {
  const std::lock_guard lock(hdf5_);
  file_.reset();
}

void PredictionTables::append(std::int64_t samples, const PredictedRows& rows) {
  const auto sources =
      reader_.source_index().subspan(static_cast<std::size_t>(samples_), static_cast<std::size_t>(samples));
  append_rows(sources, rows);
  samples_ += samples;
}

void PredictionTables::append_rows(std::span<const std::int64_t> source_index, const PredictedRows& rows) {
  {
    const std::lock_guard lock(hdf5_);
    file_->append(source_index, rows.stored);
  }
  text_.append(source_index, rows.shown);
}

void PredictionTables::add_windows(const PredictedRows& columns) {
  const std::lock_guard lock(hdf5_);
  file_->add_windows(columns.stored);
}

void PredictionTables::append_windows(std::span<const std::int64_t> source_index, const PredictedRows& windows) {
  const std::lock_guard lock(hdf5_);
  file_->append_windows(source_index, windows.stored);
}

void PredictionTables::close() {
  {
    const std::lock_guard lock(hdf5_);
    file_->close();
  }
  text_.close();
}

}  // namespace bert_hpc::objectives
