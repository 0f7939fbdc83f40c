// The list of formats.
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/prep/readers/row_reader.hpp"
#include "sentence_rows.hpp"

namespace bert_hpc::prep {

// Each format's file defines its entry.
const TextFormat& csv_format();
const TextFormat& tsv_format();
const TextFormat& jsonl_format();
const TextFormat& plain_format();
const TextFormat& squad_format();
const TextFormat& wikiqa_format();
const TextFormat& glue_format();
const TextFormat& conll_format();
const TextFormat& msmarco_format();
const TextFormat& fasta_format();
const TextFormat& parquet_format();
const TextFormat& nvidia_format();

std::span<const TextFormat* const> text_formats() {
  static const TextFormat* const formats[] = {&csv_format(),     &tsv_format(),    &jsonl_format(),   &plain_format(),
                                              &squad_format(),   &wikiqa_format(), &glue_format(),    &conll_format(),
                                              &msmarco_format(), &fasta_format(),  &parquet_format(), &nvidia_format()};
  return formats;
}

const TextFormat* find_text_format(std::string_view name) {
  for (const TextFormat* format : text_formats()) {
    if (name == format->name) return format;
  }
  return nullptr;
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const TextFormat* format : text_formats()) names.emplace_back(format->name);
  return names;
}

std::vector<std::string> format_names(bool TextFormat::*which) {
  std::vector<std::string> names;
  for (const TextFormat* format : text_formats()) {
    if (format->*which) names.emplace_back(format->name);
  }
  return names;
}

std::unique_ptr<RowReader> open_rows(const std::string& file, const RowFormat& format,
                                     const std::vector<std::string>& columns) {
  core::require(format.format != nullptr, "rows have a format");
  return format.sentence.empty() ? format.format->open(file, format, columns)
                                 : open_sentence_rows(file, format, columns);
}

}  // namespace bert_hpc::prep
