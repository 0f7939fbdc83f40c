// Parquet, by Apache Arrow's library: rows of one row group after the other, of the columns that are asked for. This
// file and parquet_column are the only ones that include Arrow's headers.
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/prep/readers/row_reader.hpp"
#include "parquet_file.hpp"

#ifdef BERT_HPC_HAVE_PARQUET
#include <arrow/util/config.h>
#include <arrow/util/key_value_metadata.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>

#include <algorithm>
#include <new>
#include <utility>

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/prep/readers/line_source.hpp"
#include "class_names.hpp"
#include "column_words.hpp"
#include "list_cells.hpp"
#include "parquet_column.hpp"
#endif

namespace bert_hpc::prep {

#ifdef BERT_HPC_HAVE_PARQUET
namespace {

using core::Error;
using core::ExitCode;

/// Runs `read` and throws Error(data) for what Arrow throws; `where`: "FILE: row group 1, column \"text\": ".
template <class Read, class Where>
auto checked(const Read& read, const Where& where) {
  try {
    return read();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    const std::string what = core::printable(error.what(), 300);
    // Arrow throws one type for damaged data and for what this build of it lacks; only its message differs.
    const bool is_unknown = what.find("not built") != std::string::npos ||
                            what.find("NotImplemented") != std::string::npos ||
                            what.find("yet implemented") != std::string::npos;
    throw Error(ExitCode::data,
                where() + (is_unknown ? "Arrow " + parquet_version() + " of this build cannot read it (" + what +
                                            "). Write the file again, compressed with zstd or snappy."
                                      : "the data is damaged (" + what + "). Copy or write the file again."));
  }
}

std::unique_ptr<parquet::ParquetFileReader> open_file(const std::string& file) {
  check_parquet_ends(file);
  return checked(
      [&] {
        parquet::ReaderProperties properties;
        // Pages are read one by one, not the column of a whole row group.
        properties.enable_buffered_stream();
        properties.set_buffer_size(std::int64_t{256} << 10);
#if ARROW_VERSION_MAJOR >= 13
        properties.set_page_checksum_verification(true);
#endif
        return parquet::ParquetFileReader::OpenFile(file, false, properties);
      },
      [&] { return file + ": "; });
}

/// The value of `key` in the file's metadata; "" if there is none.
std::string metadata_value(const parquet::FileMetaData& metadata, const char* key) {
  const auto& pairs = metadata.key_value_metadata();
  const int index = pairs == nullptr ? -1 : pairs->FindKey(key);
  return index < 0 ? "" : pairs->value(index);
}

class ParquetRows : public RowReader {
 public:
  ParquetRows(const std::string& file, const RowFormat& format, const std::vector<std::string>& columns)
      : file_(file), format_(format), columns_(columns), reader_(open_file(file)), metadata_(reader_->metadata()) {
    find_columns();
    cells_.resize(columns.size());
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (ListColumn::is_in(format_, columns[i])) cells_[i].list.emplace(format_, columns[i]);
      const ParquetField& field = cells_[i].field = field_of(columns[i], cells_[i].list.has_value());
      std::vector<std::string> names;
      if (columns[i] == format_.named_column) {
        names = class_names(metadata_value(*metadata_, "huggingface"), columns[i]);
      }
      cells_[i].column = make_parquet_column(*metadata_->schema()->Column(field.leaf), field, std::move(names));
    }
  }

  bool next(Row& row) override {
    while (rows_left_ == 0) {
      if (row_group_ == metadata_->num_row_groups()) return false;
      open_row_group(row_group_++);
    }
    --rows_left_;
    row.number = ++number_;
    row.line = 0;
    row.problem.clear();
    row.values.assign(columns_.size(), std::nullopt);
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      checked([&] { row.values[i] = read_cell(cells_[i], row.problem, columns_[i]); },
              [&] { return location_of(columns_[i]); });
    }
    return true;
  }

 private:
  struct Cells {
    ParquetField field;
    std::unique_ptr<ParquetColumn> column;
    std::optional<ListColumn> list;  // lists are read here
    std::string text;
  };

  /// Throws Error(data) if the file lacks columns or has one of them twice.
  void find_columns() const {
    const parquet::schema::GroupNode& root = *metadata_->schema()->group_node();
    std::vector<std::string> known, missing;
    for (int i = 0; i < root.field_count(); ++i) known.push_back(root.field(i)->name());
    for (const std::string& column : columns_) {
      const auto count = std::count(known.begin(), known.end(), column);
      if (count == 0) missing.push_back(column);
      if (count < 2) continue;
      throw Error(ExitCode::data,
                  file_ + ": has the column \"" + core::printable(column) + "\" more than once. Rename the columns.");
    }
    if (missing.empty()) return;
    throw Error(ExitCode::data, file_ + ": has no " + columns_text(missing, known) + ". Its columns are " +
                                    core::printable(core::listed(known, "and"), 300) + ".");
  }

  /// takes_lists: the column may be one of lists.
  ParquetField field_of(const std::string& column, bool takes_lists) const {
    const parquet::SchemaDescriptor& schema = *metadata_->schema();
    const parquet::schema::GroupNode& root = *schema.group_node();
    ParquetField field = parquet_field(schema, *root.field(root.FieldIndex(column)));
    if (field.problem.empty() && field.is_list && !takes_lists) field.problem = "holds lists";
    if (field.problem.empty()) return field;
    throw Error(ExitCode::data, file_ + ": the column \"" + core::printable(column) + "\" " + field.problem +
                                    ". [source] reads texts, numbers and truth values, and lists of them if a row has "
                                    "several words or labels. Write what it is to read as such a column.");
  }

  void open_row_group(int index) {
    checked(
        [&] {
          group_ = reader_->RowGroup(index);
          rows_left_ = group_->metadata()->num_rows();
          if (rows_left_ < 0) throw parquet::ParquetException("it has a negative number of rows");
          for (Cells& cells : cells_) cells.column->open(group_->Column(cells.field.leaf));
        },
        [&] { return file_ + ": row group " + std::to_string(index + 1) + ": "; });
  }

  /// The text of the column's next cell.
  std::string_view read_cell(Cells& cells, std::string& problem, const std::string& column) {
    std::string found;
    std::string_view text;
    if (cells.field.is_list) {
      cells.column->next_list(entries_, found);
      if (found.empty()) problem_of_list(cells.list->join(entries_, cells.text), problem);
      text = cells.text;
    } else {
      text = cells.column->next_cell(found);
      if (cells.list) problem_of_list(cells.list->read_cell(text, cells.text), problem);
    }
    if (text.size() > longest_record) found = "has a text of more than 64 MiB";
    if (!found.empty()) problem = found + " in \"" + column + '"';
    return text;
  }

  static void problem_of_list(std::string found, std::string& problem) {
    if (!found.empty()) problem = std::move(found);
  }

  std::string location_of(const std::string& column) const {
    return file_ + ": row " + core::with_commas(number_) + " in row group " + std::to_string(row_group_) +
           ", column \"" + core::printable(column) + "\": ";
  }

  std::string file_;
  RowFormat format_;
  std::vector<std::string> columns_;
  std::unique_ptr<parquet::ParquetFileReader> reader_;
  std::shared_ptr<parquet::FileMetaData> metadata_;
  std::shared_ptr<parquet::RowGroupReader> group_;  // of the rows at hand
  std::vector<Cells> cells_;                        // by column
  std::vector<ListEntry> entries_;
  int row_group_ = 0;  // the next one
  std::int64_t rows_left_ = 0, number_ = 0;
};

std::unique_ptr<RowReader> open(const std::string& file, const RowFormat& format,
                                const std::vector<std::string>& columns) {
  return checked([&] { return std::make_unique<ParquetRows>(file, format, columns); }, [&] { return file + ": "; });
}

std::vector<std::string> names_of(const std::string& file, const std::string& column) {
  return class_names(metadata_value(*open_file(file)->metadata(), "huggingface"), column);
}

}  // namespace
#else
namespace {

std::unique_ptr<RowReader> open(const std::string& file, const RowFormat& format, const std::vector<std::string>&) {
  throw core::Error(core::ExitCode::input, file + ": [source] format = \"parquet\" " + format.format->lacks + ".");
}

constexpr std::vector<std::string> (*names_of)(const std::string&, const std::string&) = nullptr;

}  // namespace
#endif

const TextFormat& parquet_format() {
  constexpr const char* lacks =
      "needs Apache Arrow, which this build does not have. Build with it (jobs/README.md), or convert the files to "
      "format = \"jsonl\": python3 -c 'import pandas; pandas.read_parquet(\"FILE\").to_json(\"NEW.jsonl\", "
      "orient=\"records\", lines=True)'";
  static const TextFormat format{.name = "parquet",
                                 .title = "Parquet",
                                 .is_text = false,
                                 .lacks = parquet_version().empty() ? lacks : "",
                                 .label_names = names_of,
                                 .open = open};
  return format;
}

}  // namespace bert_hpc::prep
