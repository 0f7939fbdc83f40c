#include "bert_hpc/data/embedding_shard.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <span>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::data {
namespace {

using core::Error;
using core::ExitCode;
using io::Dataset;

constexpr const char *schema = "bert_hpc-embeddings-1", *file_kind = "embeddings", *rows_name = "/embeddings",
                     *scales_name = "/scales", *offsets_name = "/offsets", *labels_name = "/labels",
                     *source_name = "/source_index";

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw Error(ExitCode::data, path + ": " + what);
}

/// A run's folder says whether it has finished; its embeddings may have been moved elsewhere.
void require_finished_run(const std::string& path) {
  const std::filesystem::path run = std::filesystem::path(path).parent_path().parent_path();
  std::ifstream file(run / ".status");
  std::string status;
  if (!(file >> status) || status == "finished") return;
  fail(path, "its run of mode embed has not finished (" + (run / ".status").string() + " says \"" +
                 core::printable(status) + "\"): submit that run again, or move complete files elsewhere.");
}

/// Text of an attribute; "unknown" without it.
std::string text_of(const io::Hdf5File& file, const char* name) {
  return file.has_attribute("/", name) ? file.text_attribute("/", name) : "unknown";
}

/// The encoder and what of it the rows are, for comparisons and messages.
std::string origin_of(const io::Hdf5File& file) {
  const bool is_unit = text_of(file, "normalize") == "true";
  return text_of(file, "pooling") + " of layer " + text_of(file, "layer") + " of the encoder " +
         text_of(file, "model_hash") + (is_unit ? ", normalized" : "");
}

/// Bytes of a number; 0 for a type that no version writes.
std::int64_t bytes_of_type(const std::string& type) {
  if (type == "fp32") return 4;
  if (type == "fp16" || type == "bf16") return 2;
  return type == "int8" ? 1 : 0;
}

std::string row_type_of(const std::string& path, const io::Hdf5File& file) {
  const std::string type = file.text_attribute(rows_name, "type");
  if (bytes_of_type(type) == 0) fail(path, "its embeddings have the type \"" + core::printable(type) + "\".");
  return type;
}

std::vector<std::int64_t> offsets_of(const std::string& path, const io::Hdf5File& file, std::int64_t sequences,
                                     std::int64_t rows) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(sequences) + 1);
  if (!file.exists(offsets_name)) {  // pooled: a row for each sequence
    for (std::size_t s = 0; s < offsets.size(); ++s) offsets[s] = static_cast<std::int64_t>(s);
  } else {
    file.dataset(offsets_name).read_rows(0, offsets);
  }
  const bool rises =
      std::adjacent_find(offsets.begin(), offsets.end(), [](auto a, auto b) { return b <= a; }) == offsets.end();
  if (offsets.front() != 0 || offsets.back() != rows || !rises) fail(path, "its offsets do not fit its rows.");
  return offsets;
}

void read_labels_of(const std::string& path, const io::Hdf5File& file, const ShardLimits& limits,
                    std::span<const std::int64_t> offsets, ShardContent& content) {
  const tasks::Labels kind = limits.task->labels;
  content.info.labelled = file.exists(labels_name);
  if (kind == tasks::Labels::none) return;
  if (kind != tasks::Labels::classes && kind != tasks::Labels::values && kind != tasks::Labels::sets) {
    fail(path, std::string("embeddings have labels of whole sequences, and the task \"") + limits.task->name +
                   "\" has others: use text shards.");
  }
  if (!content.info.labelled) {
    if (limits.labels) fail(path, "it has no labels: mode embed copies those of its shards, and they had none.");
    return;
  }
  if (file.has_attribute("/", shard_attribute::label_names)) {
    content.info.label_names = label_names_from_json(file.text_attribute("/", shard_attribute::label_names), path);
  }
  const Dataset labels = file.dataset(labels_name);
  const auto names = static_cast<std::int64_t>(content.info.label_names.size());
  const LabelType type = label_type(kind, content.info.sequences, names);
  const io::DatasetInfo& found = labels.info();
  if (found.type_class != type.type_class || found.element_bytes != type.bytes || found.extents != type.extents) {
    fail(path, "its labels (" + found.type_name() + ", shape " + found.shape_text() + ") are not those of the task \"" +
                   limits.task->name + "\": embed shards of that task.");
  }
  if (!limits.labels) return;
  content.labels = read_labels(labels, kind, offsets, names, [&path](std::int64_t sequence, const std::string& what) {
    fail(path, "sequence " + std::to_string(sequence) + ": " + what);
  });
}

ShardContent content_of(const std::string& path, const ShardLimits& limits, const ShardParts& parts) {
  require_finished_run(path);
  io::verify(path, file_kind, ExitCode::data);
  const io::Hdf5File file = io::Hdf5File::open_read(path, ExitCode::data);
  if (const std::string found = text_of(file, "schema"); found != schema) {
    fail(path, "its schema is \"" + core::printable(found) + "\"; this version reads \"" + schema + "\".");
  }
  const io::DatasetInfo rows = file.dataset(rows_name).info();
  ShardContent content;
  content.task = limits.task->name;
  content.info.task = limits.task;
  content.info.sequences = file.integer_attribute("/", "sequences");
  if (rows.extents.size() != 2 || content.info.sequences < 0 || content.info.sequences > rows.extents[0]) {
    fail(path, "its embeddings have the shape " + rows.shape_text() + ".");
  }
  content.info.tokens = rows.extents[0];
  content.info.columns = rows.extents[1];
  content.info.embedded = origin_of(file);
  content.info.row_type = row_type_of(path, file);
  content.info.vocabulary_size = 1;
  content.info.tokenizer = "{}";
  const std::vector<std::int64_t> offsets = offsets_of(path, file, content.info.sequences, rows.extents[0]);
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
    content.lengths.push_back(static_cast<std::int32_t>(offsets[s + 1] - offsets[s]));
    content.info.max_length = std::max<std::int64_t>(content.info.max_length, content.lengths.back());
  }
  read_labels_of(path, file, limits, offsets, content);
  if (parts.source_index) {
    content.source_index.assign(offsets.begin(), offsets.end() - 1);
    if (file.exists(source_name)) file.dataset(source_name).read_rows(0, content.source_index);
  }
  content.bytes_read = std::ssize(content.lengths) * static_cast<std::int64_t>(sizeof(std::int64_t));
  content.seal = io::seal_text(path, ExitCode::data);
  return content;
}

/// Reads into memory of bytes, and returns the numbers as T.
template <class T>
std::span<const T> read_as(const Dataset& rows, std::int64_t first, std::span<std::byte> values) {
  const std::span<T> typed(reinterpret_cast<T*>(values.data()), values.size() / sizeof(T));
  rows.read_rows(first, typed);
  return typed;
}

/// Index of the first number whose exponent has all bits set, as those of infinities and NaN have; −1: none.
std::int64_t first_not_finite(std::span<const std::uint16_t> halves, std::uint16_t exponent) {
  const auto bad =
      std::find_if(halves.begin(), halves.end(), [=](std::uint16_t bits) { return (bits & exponent) == exponent; });
  return bad == halves.end() ? -1 : bad - halves.begin();
}

std::int64_t first_not_finite(std::span<const float> values) {
  const auto bad = std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
  return bad == values.end() ? -1 : bad - values.begin();
}

}  // namespace

bool is_embedding_file(const std::string& path) {
  constexpr std::string_view begin = "bert_hpc embeddings ";
  std::array<char, begin.size()> found{};
  std::ifstream file(path, std::ios::binary);
  return file.read(found.data(), found.size()) && std::string_view(found.data(), found.size()) == begin;
}

ShardContent read_embedding_content(const std::string& path, const ShardLimits& limits, const ShardParts& parts) {
  try {
    return content_of(path, limits, parts);
  } catch (const Error& error) {
    ShardContent content;
    content.problem = error.what();
    return content;
  }
}

std::int64_t embedding_value_bytes(const ShardInfo& info) {
  return info.columns * bytes_of_type(info.row_type);
}

std::int64_t embedding_scale_bytes(const ShardInfo& info) {
  return info.row_type == "int8" ? std::int64_t{sizeof(float)} : 0;
}

void read_embedding_rows(const std::string& path, const ShardInfo& info, std::int64_t first,
                         std::span<std::byte> values, std::span<float> scales) {
  const io::Hdf5File file = io::Hdf5File::open_read(path, ExitCode::data);
  const Dataset rows = file.dataset(rows_name);
  std::int64_t bad = -1;  // number of the rows
  if (info.row_type == "fp32") {
    bad = first_not_finite(read_as<float>(rows, first, values));
  } else if (info.row_type == "int8") {
    read_as<std::int8_t>(rows, first, values);
    file.dataset(scales_name).read_rows(first, scales);
    bad = first_not_finite(scales);
    if (bad >= 0) bad *= info.columns;
  } else {
    constexpr std::uint16_t exponent_of_bf16 = 0x7F80, exponent_of_fp16 = 0x7C00;
    bad = first_not_finite(read_as<std::uint16_t>(rows, first, values),
                           info.row_type == "bf16" ? exponent_of_bf16 : exponent_of_fp16);
  }
  if (bad < 0) return;
  fail(path, "row " + std::to_string(first + bad / info.columns) +
                 " of its embeddings is not finite: embed again, in fp32 or bf16.");
}

}  // namespace bert_hpc::data
