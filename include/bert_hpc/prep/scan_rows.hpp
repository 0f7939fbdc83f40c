// The first pass over the text.
#pragma once

#include <functional>
#include <string>

#include "bert_hpc/prep/prep_config.hpp"
#include "bert_hpc/prep/row_stream.hpp"
#include "bert_hpc/prep/row_table.hpp"

namespace bert_hpc::prep {

using RowVisit = std::function<void(const SourceRow& row, RowStatus status, const std::string& file)>;

/// Reads all text once, judges each row, numbers the labels and divides the rows into splits. The same on every rank.
/// Throws as RowStream does, and Error(data) if no row is left, more than [filter] max_rejected of the rows are broken,
/// or rows lack something and [filter] drop_missing is false. visit: gets each row as it is judged, with its file's
/// path; its split, and whether filters keep it, may change.
RowTable scan_rows(const PrepConfig& config, const RowVisit& visit = {});

}  // namespace bert_hpc::prep
