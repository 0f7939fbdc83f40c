// Formats that people have tables in, and what to do with each.
#include "file_kind.hpp"

#include "bert_hpc/prep/readers/row_reader.hpp"
#include "decompressor.hpp"

namespace bert_hpc::prep {
namespace {

struct Kind {
  std::string_view magic;
  const char* words;
};

using namespace std::string_view_literals;

// Where a magic is letters, bytes that no text has follow it here.
constexpr Kind kinds[] = {
    {"\x1F\x8B"sv, "gzip within another compression; decompress it once"},
    {"\xFD\x37zXZ\0"sv, "compressed with xz; decompress it (xz -d FILE), or use gzip, which is read directly"},
    {"BZh91AY&SY"sv, "compressed with bzip2; decompress it (bzip2 -d FILE), or use gzip, which is read directly"},
    {"ARROW1\0\0"sv,
     "Arrow; convert it: python3 -c 'import pandas; pandas.read_feather(\"FILE\").to_csv(\"NEW.csv\", index=False)'"},
    {"\x89HDF\r\n\x1A\n"sv, "HDF5; [source] takes text, and NVIDIA's shards for BERT as format = \"nvidia_hdf5\""},
    {"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"sv, "an Excel workbook (.xls); save it as \"CSV UTF-8\""},
    {"SQLite format 3\0"sv, "an SQLite database; export the table as CSV"},
    {"%PDF-1."sv, "PDF; [source] takes text"},
};

/// What to do with Zstandard, which a build that reads it finds here only within another compression.
const char* zstd_words() {
  return zstd_version().empty()
             ? ": is compressed with Zstandard; decompress it (zstd -d FILE), or use gzip, which is read directly."
             : ": is Zstandard within another compression; decompress it once.";
}

std::string parquet_words() {
  const std::string& lacks = find_text_format("parquet")->lacks;
  return lacks.empty() ? ": is Parquet: set [source] format = \"parquet\"."
                       : ": is Parquet, and format = \"parquet\" " + lacks + ".";
}

/// Kind of a zip archive's content, by the names of its first files.
std::string zip_format(std::string_view start) {
  const auto holds = [start](std::string_view text) { return start.find(text) != std::string_view::npos; };
  if (holds("mimetypeapplication/vnd.oasis.opendocument.spreadsheet")) {
    return ": is an OpenDocument spreadsheet (.ods); save it as \"Text CSV\" in UTF-8.";
  }
  if (holds("mimetypeapplication/vnd.oasis.opendocument"))
    return ": is an OpenDocument text or slides; save it as text.";
  if (holds("word/")) return ": is a Word document (.docx); save it as text.";
  if (holds("[Content_Types].xml") || holds("xl/")) {
    return ": is an Excel workbook (.xlsx); save it as \"CSV UTF-8\".";
  }
  return ": is a zip archive; unpack it (unzip FILE) and name the files in it.";
}

}  // namespace

std::string binary_format(std::string_view start) {
  if (start.starts_with("PK\x03\x04"sv)) return zip_format(start);
  if (is_zstd(start)) return zstd_words();
  if (start.starts_with("PAR1\x15"sv)) return parquet_words();
  for (const Kind& kind : kinds) {
    if (start.starts_with(kind.magic)) return std::string(": is ") + kind.words + ".";
  }
  return {};
}

}  // namespace bert_hpc::prep
