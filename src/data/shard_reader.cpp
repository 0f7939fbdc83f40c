// A list of shards as one data set.
#include "bert_hpc/data/shard_reader.hpp"

#include <algorithm>
#include <new>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/rng.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/data/embedding_shard.hpp"
#include "bert_hpc/data/shard_tokenizer.hpp"
#include "bert_hpc/data/shared_reading.hpp"
#include "bert_hpc/io/checksummed_file.hpp"
#include "bert_hpc/io/provenance.hpp"

namespace bert_hpc::data {
namespace {

using core::Error;
using core::ExitCode;

/// Problems reported one by one; the rest is counted.
constexpr std::size_t most_problems = 20;

/// Candidates of a query of planned data, about as many as in WikiQA.
constexpr std::int64_t planned_candidates = 10;

/// What the shards of a data set have in common.
struct ShardIdentity {
  std::string path;
  ShardInfo info;
  SpecialIds special_ids;
};

std::string names_text(const std::vector<std::string>& names) {
  return names.empty() ? "none" : core::printable(core::listed(names, "and"), 120);
}

/// Compares a shard with the first one: what differs, or nothing.
std::string difference(const ShardIdentity& first, const ShardInfo& b, const SpecialIds& special_ids, bool labels) {
  const ShardInfo& a = first.info;
  if ((a.columns > 0) != (b.columns > 0)) {
    return std::string("it holds ") + (b.columns > 0 ? "embeddings" : "token ids") + ", '" + first.path + "' " +
           (a.columns > 0 ? "embeddings" : "token ids") + ": a run reads one kind.";
  }
  if (a.columns != b.columns || a.embedded != b.embedded) {
    return "its embeddings (" + std::to_string(b.columns) + " columns, " + core::printable(b.embedded) +
           ") differ from those of '" + first.path + "' (" + std::to_string(a.columns) + " columns, " +
           core::printable(a.embedded) + "); embed all shards in one run.";
  }
  if (a.row_type != b.row_type) {
    return "its embeddings are stored as " + b.row_type + ", those of '" + first.path + "' as " + a.row_type +
           "; embed all shards in one run.";
  }
  const std::string suffix = " differ from those of '" + first.path + "'; prepare all shards together.";
  if (a.vocabulary_hash != b.vocabulary_hash || a.vocabulary_size != b.vocabulary_size) {
    return "its vocabulary (" + std::to_string(b.vocabulary_size) + " pieces, hash " + b.vocabulary_hash +
           ") differs from that of '" + first.path + "' (" + std::to_string(a.vocabulary_size) + " pieces, hash " +
           a.vocabulary_hash + "); prepare all shards with one vocabulary.";
  }
  if (a.task != b.task) return "its task '" + std::string(b.task->name) + "' and labels" + suffix;
  if (labels && a.label_names != b.label_names) {
    return "its label names (" + names_text(b.label_names) + ") differ from those of '" + first.path + "' (" +
           names_text(a.label_names) + "); prepare all shards together.";
  }
  const bool one_spec = a.tokenizer_hash.empty() || b.tokenizer_hash.empty() || a.tokenizer_hash == b.tokenizer_hash;
  // As usual: nothing to parse.
  if (a.tokenizer == b.tokenizer && first.special_ids == special_ids && one_spec) return "";
  const ShardTokenizer ours = shard_tokenizer(a.tokenizer, first.path),
                       theirs = shard_tokenizer(b.tokenizer, first.path);
  if (ours.kind != theirs.kind) return "its kind of tokenizer" + suffix;
  const tokenize::TokenizerKey* const key =
      ours.kind == nullptr ? nullptr : first_difference(*ours.kind, ours.settings, theirs.settings);
  if (key != nullptr) {
    return "its text was prepared with " + setting_text(*ours.kind, *key, theirs.settings) + ", that of '" +
           first.path + "' with " + setting_text(*ours.kind, *key, ours.settings) +
           "; prepare all shards with the same settings.";
  }
  if (!(first.special_ids == special_ids)) return "its special tokens" + suffix;
  if (!one_spec) {
    return "its tokenizer (specification " + b.tokenizer_hash + ") differs from that of '" + first.path + "' (" +
           a.tokenizer_hash + "); prepare all shards with one tokenizer.";
  }
  return "";
}

std::string reader_text(int rank) {
  return "Rank " + std::to_string(rank) + " on " + io::host_name();
}

/// Compares the file that this rank finds with the one that another rank has read: what differs, or nothing.
std::string difference_here(const std::string& path, const std::string& seal, int rank) {
  try {
    if (io::seal_text(path, ExitCode::data) == seal) return "";
  } catch (const Error& error) {
    return std::string(error.what()) + " " + reader_text(rank) + " needs it.";
  }
  return path + ": " + reader_text(rank) +
         " has another file of this name than the rank that has read it. All nodes need the same shards.";
}

}  // namespace

void require_alike(const ShardReader& first, const ShardReader& other, bool labels) {
  const std::string what =
      difference({first.files().front(), first.info(), first.special_ids()}, other.info(), other.special_ids(), labels);
  if (!what.empty()) throw Error(ExitCode::data, other.files().front() + ": " + what);
}

ShardReader::ShardReader(const ShardReaderOptions& options) : options_(options) {
  if (open_all()) {
    keep_tokens();
  } else {
    files_.clear();  // another rank ends the run: this reader is consistent, and empty
    first_sample_.clear();
    first_token_.clear();
  }
}

ShardReader::~ShardReader() {
  stops_ = true;
  if (reader_.joinable()) reader_.join();
  // Another data set's thread may be reading while these files are closed.
  std::unique_lock<std::mutex> lock;
  if (options_.hdf5_mutex != nullptr) lock = std::unique_lock(*options_.hdf5_mutex);
  open_files_.clear();
}

ShardReader::ShardReader(const PlannedData& planned) : info_(planned.info), planned_(true) {
  core::require(!planned.lengths.empty(), "planned data hold a sequence");
  special_ids_ = {.cls = 2, .sep = 3, .mask = 4, .pad = 0, .unk = 1};
  for (const std::int32_t length : planned.lengths) table_.append(length);
  info_.sequences = table_.sequences();
  info_.tokens = table_.tokens();
  info_.max_length = *std::max_element(planned.lengths.begin(), planned.lengths.end());
  if (info_.task->has_words()) words_ = planned_words(planned.lengths);
  labels_ = planned_labels(info_.task->labels, info_.sequences, std::ssize(info_.label_names), words_.count());
  if (!info_.task->has_groups()) return;
  const std::int64_t of_group = info_.task->has_text_rows() ? 2 : planned_candidates;
  for (std::int64_t begin = 0; begin < info_.sequences; begin += of_group) groups_.push_back(begin);
  groups_.push_back(info_.sequences);
}

/// Shards that have been read go to the end of the data set one by one, so that neither open files nor memory grow with
/// their number. False if another rank has failed alone.
bool ShardReader::open_all() {
  SharedReading reading(options_.ranks);
  const auto listed = reading.once([this] { return list_shards(options_.name, options_.paths, options_.repeats); });
  if (!listed) return false;
  core::ProblemList problems;
  for (const std::string& problem : listed->problems) problems.add(problem);
  files_ = listed->files;
  path_ends_ = listed->ends;
  file_bytes_ = std::accumulate(listed->sizes.begin(), listed->sizes.end(), std::int64_t{0});
  const ShardParts parts{.source_index = options_.source_index,
                         .tokens = reads_tokens_early(),
                         .verified = reads_at_once() ? io::SealPart::everything : io::SealPart::tail};
  std::size_t omitted = 0;
  ShardIdentity first;
  std::vector<bool> is_read_here(files_.size());
  const auto read = [&](std::size_t f) {
    const bool embeds = is_embedding_file(files_[f]);
    ShardContent content = embeds ? read_embedding_content(files_[f], options_.limits, parts)
                                  : read_content(files_[f], options_.limits, parts);
    bytes_read_ += content.bytes_read;
    const int rank = options_.ranks.rank;
    if (!content.problem.empty() && rank > 0) content.problem += " (" + reader_text(rank) + " read it.)";
    is_read_here[f] = true;
    return content;
  };
  const auto add = [&](std::size_t f, ShardContent content) {
    content.info.task = &tasks::named(content.task);
    opening_bytes_ += content.bytes_read;
    // Its tokens will be read here too.
    if (content.problem.empty() && options_.ranks.checks_files && !reads_tokens_early() && !is_read_here[f]) {
      content.problem = difference_here(files_[f], content.seal, options_.ranks.rank);
    }
    if (content.problem.empty()) {
      if (first.path.empty()) {
        first = {files_[f], content.info, content.special_ids};
        info_ = content.info;
        special_ids_ = content.special_ids;
      }
      const std::string what = difference(first, content.info, content.special_ids, true);
      if (!what.empty()) content.problem = files_[f] + ": " + what;
      if (what.empty() && content.info.labelled != first.info.labelled && info_.task->has_text_rows()) {
        content.problem = files_[f] + ": its rows have " + (first.info.labelled ? "no scores" : "scores") +
                          ", those of '" + first.path + "' have " + (first.info.labelled ? "some" : "none") +
                          "; prepare all shards of a split alike.";
      }
    }
    if (content.problem.empty()) {
      take(std::move(content));
      if (f == 0) reserve_for_all(listed->sizes.front());
    } else if (problems.all().size() < most_problems) {
      problems.add(content.problem);
    } else {
      ++omitted;
    }
  };
  if (!reading.each(listed->sizes, read, add)) return false;
  table_.give_back();
  labels_.give_back();
  if (omitted > 0) problems.add("… and " + std::to_string(omitted) + " more files with problems.");
  if (problems.empty() && samples() == 0) problems.add("The shards hold no samples.");
  problems.throw_if_any(ExitCode::data, "Cannot use the shards of " + options_.name + ":");
  return true;
}

std::int64_t ShardReader::memory_bytes() const {
  const auto bytes = [](const auto& all) { return static_cast<std::int64_t>(all.capacity() * sizeof(all[0])); };
  std::int64_t sum = table_.memory_bytes() + labels_.memory_bytes() + bytes(source_index_) + bytes(contexts_) +
                     words_.memory_bytes() + bytes(groups_);
  sum += token_bytes() / processes_;
  if (planned_) {  // as it would be with shards: tokens in memory or a cache, and the rows of the source text
    TokenLayout layout = token_layout();
    layout.types = true;
    const std::int64_t tokens = table_.tokens() * layout.token_bytes();
    sum += (tokens > options_.memory_limit ? options_.cache_bytes : tokens) +
           table_.sequences() * static_cast<std::int64_t>(sizeof(std::int64_t));
  }
  return sum;
}

void ShardReader::take(ShardContent content) {
  const auto append = [](auto& all, const auto& part) { all.insert(all.end(), part.begin(), part.end()); };
  if (options_.limits.task->has_words()) words_.append(content.words);
  labels_.append(content.labels);
  append(contexts_, content.contexts);
  if (options_.limits.task->has_groups()) {
    if (groups_.empty()) groups_.push_back(0);
    const std::int64_t first = groups_.back();
    for (const std::int64_t end : content.groups) {
      if (end > 0) groups_.push_back(first + end);
    }
  }
  append(source_index_, content.source_index);
  first_sample_.push_back(table_.sequences());
  first_token_.push_back(table_.tokens());
  for (const std::int32_t length : content.lengths) table_.append(length);
  has_types_ = has_types_ || content.has_types;
  info_.has_texts = info_.has_texts && content.info.has_texts;
  info_.sequences = table_.sequences();
  info_.tokens = table_.tokens();
  info_.max_length = std::max(info_.max_length, content.info.max_length);
  seals_.push_back(std::move(content.seal));
  if (reads_tokens_early() && !has_embeddings()) keep_early(std::move(content.tokens));
}

/// After the first shard, of that many bytes: arrays that grow are copied, and their pages made again. A guess by sizes
/// of files that are not checked yet: what it gets wrong is given back, and where there is no memory for it arrays
/// grow.
void ShardReader::reserve_for_all(std::int64_t first_bytes) {
  if (files_.size() == 1 || first_bytes == 0) return;
  constexpr double shards_differ = 1.02;
  constexpr double least_bytes = 16;  // of a sequence: its offset and its row
  const auto bytes = static_cast<double>(file_bytes_), sequences = static_cast<double>(table_.sequences());
  const double all =
      std::min(shards_differ * bytes / static_cast<double>(first_bytes) * sequences, bytes / least_bytes);
  if (all <= sequences) return;
  try {
    table_.reserve(static_cast<std::int64_t>(all));
    labels_.reserve(all / sequences);
  } catch (const std::bad_alloc&) {
    return;
  } catch (const std::length_error&) {
    return;
  }
}

/// Keeps a shard's tokens as long as all fit; what was kept is dropped as soon as they do not.
void ShardReader::keep_early(ShardTokens tokens) {
  if (fits()) {
    early_.push_back(std::move(tokens));
  } else {
    early_ = {};
  }
}

std::size_t ShardReader::file_of(std::int64_t sample) const {
  // Shards without sequences share their first sample with the next one: the last of them holds it.
  const auto next = std::upper_bound(first_sample_.begin(), first_sample_.end(), sample);
  return static_cast<std::size_t>(next - first_sample_.begin()) - 1;
}

void ShardReader::read(std::int64_t sample, std::int32_t* ids, std::int32_t* types) {
  if (planned_) {
    const std::int64_t first_word = special_ids_.mask + 1,
                       words = std::max<std::int64_t>(1, info_.vocabulary_size - first_word);
    for (std::int64_t i = 0; i < table_.length(sample); ++i) {
      const std::uint64_t drawn = core::mix64(static_cast<std::uint64_t>(sample) << 20 ^ static_cast<std::uint64_t>(i));
      ids[i] = static_cast<std::int32_t>(
          std::min(info_.vocabulary_size - 1,
                   first_word + static_cast<std::int64_t>(drawn % static_cast<std::uint64_t>(words))));
      types[i] = 0;
    }
    return;
  }
  if (has_embeddings()) {
    const std::int64_t row = first_row_ + table_.begin(sample);
    for (std::int64_t i = 0; i < table_.length(sample); ++i) {
      ids[i] = static_cast<std::int32_t>(row + i);
      types[i] = 0;
    }
    return;
  }
  const std::size_t file = file_of(sample);
  const std::int64_t begin = table_.begin(sample) - first_token_[file];
  const std::int64_t length = table_.length(sample);
  if (cache_) {
    cache_->copy(static_cast<int>(file), begin, length, ids, types);
  } else {
    store_->copy(static_cast<int>(file), begin, length, ids, types);
  }
}

SampleLocation ShardReader::location(std::int64_t sample) const {
  if (planned_) return {"planned data", sample};
  const std::size_t file = file_of(sample);
  return {files_[file], sample - first_sample_[file]};
}

}  // namespace bert_hpc::data
