// Opening and checking of one shard.
#include "bert_hpc/data/shard_file.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/io/checksummed_file.hpp"

namespace bert_hpc::data {
namespace {

using core::Error;
using core::ExitCode;
using io::Dataset;
using io::DatasetInfo;

/// Counters of random numbers hold positions below this (ops/dropout.hpp).
constexpr std::int64_t longest_sequence_tokens = std::int64_t{1} << 20;

using std::to_string;

const char* name_of(const DatasetInfo::TypeClass type_class) {
  return type_class == DatasetInfo::TypeClass::integer ? "integers" : "reals";
}

}  // namespace

ShardFile::ShardFile(std::string path, const ShardLimits& limits, io::Hdf5File file)
    : path_(std::move(path)), limits_(limits), file_(std::move(file)) {}

ShardFile ShardFile::open(const std::string& path, const ShardLimits& limits, std::optional<io::SealPart> verify) {
  if (verify) io::verify(path, "shard", ExitCode::data, *verify);
  ShardFile shard(path, limits, io::Hdf5File::open_read(path, ExitCode::data));
  shard.read_attributes();
  shard.check_tokens();
  shard.check_columns();
  return shard;
}

ShardFile ShardFile::reopen(const std::string& path, const ShardLimits& limits, const ShardInfo& info) {
  ShardFile shard(path, limits, io::Hdf5File::open_read(path, ExitCode::data));
  shard.info_ = info;
  shard.check_tokens();
  return shard;
}

void ShardFile::fail(const std::string& what) const {
  throw Error(ExitCode::data, path_ + ": " + what);
}

void ShardFile::read_attributes() {
  const auto attribute = [this](const char* name) { return file_.text_attribute("/", name); };
  const auto count = [this](const char* name) {
    const std::int64_t value = file_.integer_attribute("/", name);
    if (value < 0) fail(std::string("attribute '") + name + "' is negative.");
    return value;
  };
  if (!file_.has_attribute("/", shard_attribute::schema)) {
    fail("this HDF5 file is not a bert_hpc shard (it has no attribute 'schema'); bert_hpc_prep makes shards.");
  }
  if (const std::string schema = attribute(shard_attribute::schema); schema != shard_schema) {
    fail("its schema is '" + core::printable(schema) +
         "', which another version of bert_hpc_prep wrote; this version " + "reads '" + shard_schema +
         "'. Prepare the text again with this version's bert_hpc_prep.");
  }
  const std::string task = attribute(shard_attribute::task);
  info_.task = tasks::find(task);
  if (info_.task == nullptr) fail("attribute 'task' is '" + core::printable(task) + "', which is not a task.");
  // Shards of any task serve one that needs no labels.
  if (limits_.task->has_labels() && task != limits_.task->name) {
    fail("it was made for task '" + task + "', but task.name is '" + limits_.task->name + "'.");
  }
  info_.vocabulary_hash = attribute(shard_attribute::vocabulary_hash);
  info_.vocabulary_size = count(shard_attribute::vocabulary_size);
  info_.label_names = label_names_from_json(attribute(shard_attribute::label_names), path_);
  if (file_.has_attribute("/", shard_attribute::label_column)) {
    info_.label_column = attribute(shard_attribute::label_column);
  }
  info_.tokenizer = attribute(shard_attribute::tokenizer);
  if (file_.has_attribute("/", shard_attribute::tokenizer_hash)) {
    info_.tokenizer_hash = attribute(shard_attribute::tokenizer_hash);
  }
  special_ids_ = special_ids_from_json(info_.tokenizer, path_);
  info_.sequences = count(shard_attribute::sequences);
  info_.tokens = count(shard_attribute::tokens);
  info_.max_length = count(shard_attribute::max_length);
  if (info_.vocabulary_size < 1 || info_.vocabulary_size > std::numeric_limits<std::int32_t>::max()) {
    fail("attribute 'vocabulary_size' is " + to_string(info_.vocabulary_size) + ".");
  }
  if (limits_.vocabulary_size > 0 && info_.vocabulary_size > limits_.vocabulary_size) {
    fail("its vocabulary has " + to_string(info_.vocabulary_size) + " pieces, the model's vocab_size is " +
         to_string(limits_.vocabulary_size) + "; prepare the text with the model's vocabulary.");
  }
  for (const std::int32_t id :
       {special_ids_.cls, special_ids_.sep, special_ids_.mask, special_ids_.pad, special_ids_.unk}) {
    if (id >= info_.vocabulary_size) {
      fail("attribute 'tokenizer': special id " + to_string(id) + " is beyond the vocabulary of " +
           to_string(info_.vocabulary_size) + ".");
    }
  }
}

/// The dataset, which has this type and shape, or the narrow type.
Dataset ShardFile::checked_dataset(const char* name, const LabelType& wide, const LabelType* narrow) const {
  if (!file_.exists(name)) fail(std::string("it has no dataset '") + name + "'.");
  Dataset found = file_.dataset(name);
  const DatasetInfo& i = found.info();
  const LabelType& type = narrow != nullptr && i.element_bytes == narrow->bytes ? *narrow : wide;
  if (i.type_class != type.type_class || i.element_bytes != type.bytes || i.is_signed != type.is_signed) {
    fail(std::string("dataset '") + name + "' holds " + i.type_name() + "; the schema says " +
         to_string(8 * type.bytes) + "-bit " + (type.is_signed ? "signed " : "") + name_of(type.type_class) + ".");
  }
  if (i.extents != type.extents) {
    DatasetInfo stated;
    stated.extents = type.extents;
    fail(std::string("dataset '") + name + "' has shape " + i.shape_text() + "; the attributes say " +
         stated.shape_text() + ".");
  }
  found.require_stored();
  return found;
}

void ShardFile::check_tokens() {
  using Type = DatasetInfo::TypeClass;
  constexpr std::int64_t most = std::int64_t{1} << 48;
  if (info_.sequences >= most || info_.tokens >= most) fail("it claims an impossible number of tokens or sequences.");
  const LabelType narrow{Type::integer, 2, false, {info_.tokens}};
  input_ids_ = checked_dataset(shard_dataset::input_ids, {Type::integer, 4, true, {info_.tokens}}, &narrow);
  if (file_.exists(shard_dataset::token_type_ids)) {
    token_types_ = checked_dataset(shard_dataset::token_type_ids, {Type::integer, 1, false, {info_.tokens}});
  }
}

/// Checks a dataset that the caller may read as a whole, once.
void ShardFile::check_column(const char* name, const LabelType& type) {
  columns_.push_back(checked_dataset(name, type));
}

void ShardFile::check_columns() {
  check_column(shard_dataset::offsets, {DatasetInfo::TypeClass::integer, 8, true, {info_.sequences + 1}});
  if (limits_.task->row_texts > 0) check_texts();
  if (limits_.task->has_answers()) check_answers();
  const std::int64_t words = limits_.task->has_words() ? check_words() : 0;
  if (limits_.task->has_groups()) check_groups();
  info_.labelled = file_.exists(shard_dataset::labels);
  if (!limits_.labels || !limits_.task->has_labels()) return;
  if (!info_.labelled && limits_.task->has_text_rows()) return;  // pairs need none
  if (!info_.labelled) {
    fail(
        "it has no dataset '/labels': its texts have no labels (see [source] label of bert_hpc_prep's input). They can "
        "be predicted (run.mode = "
        "\"predict\"), and neither trained nor evaluated on.");
  }
  const auto names = static_cast<std::int64_t>(info_.label_names.size());
  if (limits_.task->has_label_sets() && names == 0) fail("attribute 'label_names' names no label.");
  check_column(shard_dataset::labels, label_type(limits_.task->labels, info_.sequences, names, words));
}

/// A dataset that the caller reads as a whole: the one that was checked, unless it was read before.
Dataset ShardFile::counted_dataset(const char* name) const {
  const auto open =
      std::find_if(columns_.begin(), columns_.end(), [name](const Dataset& column) { return column.name() == name; });
  Dataset dataset = open == columns_.end() ? file_.dataset(name) : std::move(*open);
  if (open != columns_.end()) columns_.erase(open);
  column_bytes_ += dataset.info().stored_bytes;
  return dataset;
}

std::int64_t ShardFile::bytes_read() const {
  return column_bytes_ + input_ids_->bytes_read() + (token_types_ ? token_types_->bytes_read() : 0);
}

/// Block by block, so that a file that claims many sequences and has none takes no memory for them.
std::vector<std::int64_t> ShardFile::read_offsets() const {
  const Dataset dataset = counted_dataset(shard_dataset::offsets);
  std::int64_t first = 0, last = 0;
  dataset.read_rows(0, std::span(&first, 1));
  dataset.read_rows(info_.sequences, std::span(&last, 1));
  if (first != 0 || last != info_.tokens) {
    fail("'/offsets' run from " + to_string(first) + " to " + to_string(last) + "; they must run from 0 to " +
         to_string(info_.tokens) + ", the number of tokens.");
  }
  constexpr std::int64_t max_at_once = std::int64_t{1} << 16;
  std::vector<std::int64_t> offsets = {0};
  std::int64_t longest = 0, longest_sequence_index = 0;
  for (std::int64_t begin = 0; begin < info_.sequences; begin += max_at_once) {
    const std::int64_t end = std::min(begin + max_at_once, info_.sequences);
    offsets.resize(static_cast<std::size_t>(end) + 1);
    dataset.read_rows(begin + 1, std::span(offsets).subspan(static_cast<std::size_t>(begin) + 1));
    for (std::int64_t s = begin; s < end; ++s) {
      const std::int64_t here = offsets[static_cast<std::size_t>(s)], next = offsets[static_cast<std::size_t>(s) + 1];
      // The comparison, not the difference, which a hostile file could make overflow.
      if (next <= here || next > info_.tokens) {
        fail(where_sequence(s) + " runs from token " + to_string(here) + " to " + to_string(next) +
             "; offsets must increase up to " + to_string(info_.tokens) + ".");
      }
      if (next - here > longest) {
        longest = next - here;
        longest_sequence_index = s;
      }
    }
  }
  check_longest(longest, longest_sequence_index);
  return offsets;
}

void ShardFile::check_longest(std::int64_t longest, std::int64_t longest_sequence_index) const {
  if (limits_.max_length > 0 && longest > limits_.max_length) {
    fail(where_sequence(longest_sequence_index) + " has " + to_string(longest) +
         " tokens; the model's max_position_embeddings is " + to_string(limits_.max_length) +
         ". Prepare the text with tokenizer.max_tokens = " + to_string(limits_.max_length) + ".");
  }
  if (longest > longest_sequence_tokens) {
    fail(where_sequence(longest_sequence_index) + " has " + to_string(longest) + " tokens; at most " +
         to_string(longest_sequence_tokens) + " can be used.");
  }
  if (longest != info_.max_length) {
    fail("its longest sequence has " + to_string(longest) + " tokens; attribute 'max_length' says " +
         to_string(info_.max_length) + ".");
  }
}

LabelColumn ShardFile::read_labels(std::span<const std::int64_t> offsets) const {
  return data::read_labels(
      counted_dataset(shard_dataset::labels), limits_.task->labels, offsets,
      static_cast<std::int64_t>(info_.label_names.size()),
      [this](std::int64_t sequence, const std::string& what) { fail(where_sequence(sequence) + what); });
}

std::vector<std::int64_t> ShardFile::read_source_index() const {
  const Dataset dataset =
      checked_dataset(shard_dataset::source_index, {DatasetInfo::TypeClass::integer, 8, true, {info_.sequences}});
  column_bytes_ += dataset.info().stored_bytes;
  std::vector<std::int64_t> rows(static_cast<std::size_t>(info_.sequences));
  dataset.read_rows(0, rows);
  return rows;
}

void ShardFile::read_tokens(std::int64_t begin, std::span<std::int32_t> ids,
                            std::span<std::uint8_t> token_types) const {
  input_ids_->read_rows(begin, ids);
  // One pass without branches; the culprit is looked for only when there is one. Negative ids become large.
  const auto bound = static_cast<std::uint32_t>(info_.vocabulary_size);
  bool good = true;
  for (const std::int32_t id : ids) good &= static_cast<std::uint32_t>(id) < bound;
  if (!good) {
    const auto bad =
        std::find_if(ids.begin(), ids.end(), [&](std::int32_t id) { return static_cast<std::uint32_t>(id) >= bound; });
    fail(where_token(begin + (bad - ids.begin())) + " has id " + to_string(*bad) + "; the vocabulary has " +
         to_string(bound) + " pieces.");
  }
  if (token_types.empty()) return;
  if (!token_types_) {
    std::fill(token_types.begin(), token_types.end(), std::uint8_t{0});
    return;
  }
  token_types_->read_rows(begin, token_types);
  const auto bad = std::find_if(token_types.begin(), token_types.end(),
                                [this](std::uint8_t type) { return type >= limits_.type_vocabulary; });
  if (bad != token_types.end()) {
    fail(where_token(begin + (bad - token_types.begin())) + " has type " + to_string(*bad) +
         "; the model's type_vocab_size is " + to_string(limits_.type_vocabulary) + ".");
  }
}

/// "sequence 17 (source row 1234)"; the source row only where it can be had.
std::string ShardFile::where_sequence(std::int64_t sequence) const {
  std::string location = "sequence " + to_string(sequence);
  try {
    std::int64_t row = 0;
    file_.dataset(shard_dataset::source_index).read_rows(sequence, std::span<std::int64_t>(&row, 1));
    location += " (source row " + to_string(row) + ")";
  } catch (const Error&) {
    // The error itself matters more than this detail of it.
  }
  return location;
}

std::string ShardFile::where_token(std::int64_t token) const {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(info_.sequences) + 1);
  file_.dataset(shard_dataset::offsets).read_rows(0, offsets);
  const auto next = std::upper_bound(offsets.begin(), offsets.end(), token);
  const std::int64_t sequence = std::max<std::int64_t>(next - offsets.begin() - 1, 0);
  return where_sequence(sequence) + ": token " + to_string(token - offsets[static_cast<std::size_t>(sequence)]);
}

}  // namespace bert_hpc::data
