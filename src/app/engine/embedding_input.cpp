#include "app/engine/embedding_input.hpp"

#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/data/embedding_shard.hpp"
#include "bert_hpc/layers/feature_rows.hpp"

namespace bert_hpc::app {
namespace {

using core::Error;
using core::ExitCode;

/// Appends the rows of a data set's files, which lie in the order of its samples.
void append_rows(const data::ShardReader& reader, std::int64_t first_row, layers::FeatureTable& table) {
  const std::span<float> all(table.values.data(), static_cast<std::size_t>(table.values.size()));
  auto at = static_cast<std::size_t>(first_row * table.columns);
  for (const std::string& file : reader.files()) {
    const std::vector<float> rows = data::read_embedding_rows(file);
    if (at + rows.size() > all.size()) {
      throw Error(ExitCode::data,
                  file + ": it was replaced after the run began; a run needs its shards until it ends.");
    }
    core::copy_to_device(std::span<const float>(rows), all.subspan(at, rows.size()));
    at += rows.size();
  }
}

}  // namespace

void load_features(DataSets& sets) {
  const std::unique_ptr<data::ShardReader>* const all[] = {&sets.train, &sets.validation, &sets.test};
  std::int64_t rows = 0, columns = 0;
  for (const auto* reader : all) {
    if (!*reader || !(*reader)->has_embeddings()) continue;
    (*reader)->set_first_row(rows);
    rows += (*reader)->info().tokens;
    columns = (*reader)->info().columns;
  }
  if (columns == 0) return;
  if (rows > std::numeric_limits<std::int32_t>::max()) {
    throw Error(ExitCode::data, "the embeddings have " + core::with_commas(rows) +
                                    " rows, more than a run can number: train on a part of them.");
  }
  auto table =
      std::make_shared<layers::FeatureTable>(layers::FeatureTable{core::Buffer<float>(rows * columns), rows, columns});
  std::int64_t first = 0;
  for (const auto* reader : all) {
    if (!*reader) continue;
    append_rows(**reader, first, *table);
    first += (*reader)->info().tokens;
  }
  sets.features = std::move(table);
}

}  // namespace bert_hpc::app
