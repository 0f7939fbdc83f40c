// One column of a Parquet file as texts. Internal to the module; needs Apache Arrow.
#pragma once

#include <parquet/column_reader.h>
#include <parquet/schema.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "list_cells.hpp"

namespace bert_hpc::prep {

/// Position of a column's values in the schema.
struct ParquetField {
  int leaf = -1;                 ///< index of its values among the columns of a row group
  bool is_list = false;          ///< a row has any number of values
  std::int16_t entry_level = 0;  ///< of a list: definition level from which on there is an entry
  std::string problem;           ///< why it cannot be read; empty if it can
};

/// Finds the values of `node`, a child of the schema's root.
ParquetField parquet_field(const parquet::SchemaDescriptor& schema, const parquet::schema::Node& node);

/// Reads the cells of a column in the order of the rows. Memory is bounded by a page of values and its dictionary.
class ParquetColumn {
 public:
  virtual ~ParquetColumn() = default;

  /// Begins a row group.
  virtual void open(std::shared_ptr<parquet::ColumnReader> reader) = 0;

  /// Returns the next row's text, which lasts until the next call; "" if it is null or NaN. Sets `problem` if the value
  /// has no text. Throws parquet::ParquetException if the file is damaged.
  virtual std::string_view next_cell(std::string& problem) = 0;

  /// The same for a list: its entries.
  virtual void next_list(std::vector<ListEntry>& entries, std::string& problem) = 0;
};

/// class_names: names of the numbers 0, 1, …; empty if they have none.
std::unique_ptr<ParquetColumn> make_parquet_column(const parquet::ColumnDescriptor& values, const ParquetField& field,
                                                   std::vector<std::string> class_names);

}  // namespace bert_hpc::prep
