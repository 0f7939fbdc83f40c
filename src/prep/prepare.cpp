// The passes over the text, in the order of Preparation::work(): rows are judged, words are counted where a vocabulary
// is trained, and rows are tokenized. Where rows are independent of each other one pass does: tokens, or words by
// number until there is a vocabulary, go to scratch files. What ranks share is small: word counts, the vocabulary, the
// length of each row. Shard k is written by rank k mod ranks.
#include "bert_hpc/prep/prepare.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <optional>

#include "bert_hpc/comm/objects.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/data/shard_writer.hpp"
#include "bert_hpc/io/atomic_write.hpp"
#include "bert_hpc/prep/check.hpp"
#include "bert_hpc/prep/row_store.hpp"
#include "bert_hpc/prep/scan_rows.hpp"
#include "bert_hpc/prep/split_layout.hpp"
#include "bert_hpc/tokenize/vocabulary_trainer.hpp"
#include "numbered_rows.hpp"
#include "row_lists.hpp"
#include "row_tokenizer.hpp"
#include "shard_facts.hpp"
#include "staging.hpp"
#include "word_counts.hpp"

namespace bert_hpc::prep {

using core::Error;
using core::ExitCode;

namespace {

const std::string memory_advice =
    "set output.shard_tokens lower; training a vocabulary (tokenizer.train_size) needs memory for every distinct word";

class Preparation {
 public:
  Preparation(const PrepConfig& config, comm::Communicator& group, const std::function<void(const std::string&)>& say)
      : config_(config), group_(group), say_(say), staging_(config.output.directory) {}

  Summary run() {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::string> marked;
    agree([&] {
      tokenizer_ = checked_tokenizer(config_);
      marked = marked_files(config_);
    });
    for (const std::string& line : marked) report(line);
    if (!config_.tokenizer.note.empty()) report(config_.tokenizer.note);
    std::string replaced;
    std::vector<std::string> found;
    agree([&] {
      if (!is_root()) return;
      found = staging_.make();
      replaced = describe_replaced(config_);
    });
    for (const std::string& line : found) report(line);
    try {
      work();
      if (!replaced.empty()) report("replaced " + replaced);
    } catch (const AgreedError&) {
      close_scratch_files();
      if (is_root()) staging_.discard();
      throw;
    } catch (...) {
      close_scratch_files();
      staging_.discard();
      throw;
    }
    summary_.seconds = seconds_since(begin);
    return summary_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  bool is_root() const { return group_.rank() == 0; }
  void report(const std::string& line) const {
    if (is_root()) say_(line);
  }
  void agree(const std::function<void()>& step) const { prep::agree(group_, step); }

  /// Open files would keep the folder on some file systems.
  void close_scratch_files() {
    lists_.reset();
    numbered_.reset();
    row_tokenizer_.reset();
    store_.reset();
  }

  /// What goes wrong with the text, all ranks find, and one of them reports. What goes wrong with this rank's scratch
  /// file, it may find alone: then the others must not wait for it.
  void scan(bool reads_once) {
    const auto begin = Clock::now();
    if (reads_once) {
      lists_.emplace(config_, staging_, is_root());
      if (tokenizer_) row_tokenizer_.emplace(config_, *tokenizer_, staging_.path(), group_);
      if (!tokenizer_) numbered_.emplace(config_, staging_, group_);
    }
    bool fails_alone = false;
    const RowVisit visit = [&](const SourceRow& row, RowStatus status, const std::string& file) {
      try {
        lists_->add(row, status, file);
        if (row_tokenizer_) row_tokenizer_->add(row, status, no_answer);
        if (numbered_) numbered_->add(row, status);
      } catch (...) {
        fails_alone = true;
        throw;
      }
    };
    std::exception_ptr failure;
    try {
      table_ = scan_rows(config_, reads_once ? visit : RowVisit{});
    } catch (...) {
      if (fails_alone) throw;
      failure = std::current_exception();
    }
    agree([&failure] {
      if (failure) std::rethrow_exception(failure);
    });
    const auto rows = static_cast<double>(table_.rows());
    const bool differ = group_.minimum(rows) != group_.maximum(rows);
    agree([differ] {
      if (!differ) return;
      throw Error(ExitCode::data,
                  "The source files changed while they were read; run bert_hpc_prep again when they no longer change.");
    });
    if (reads_once) summary_.tokenize_seconds = seconds_since(begin);
  }

  void work() {
    // Numbers of words do not tell lines.
    scan(rows_are_independent(config_) && (tokenizer_ || !config_.pairs_documents()));
    if (lists_ && table_.counts()[static_cast<std::size_t>(RowStatus::undecided_label)] > 0)
      agree([this] { list_again(); });
    summary_.rows = table_.rows();
    summary_.by_status = table_.counts();
    summary_.answers = table_.answer_counts();
    summary_.skipped_lines = table_.skipped_lines;
    for (std::size_t i = 0; i < table_.label_names.size(); ++i) {
      summary_.labels.emplace_back(table_.label_names[i], table_.label_rows[i]);
    }
    summary_.unlisted_labels.assign(table_.unlisted_labels.begin(), table_.unlisted_labels.end());
    summary_.first_rejects = table_.first_rejects;
    report("read " + core::counted(table_.rows(), "row"));
    for (const std::string& warning : warnings(table_, config_)) report("warning: " + warning);
    if (!tokenizer_) train_tokenizer();
    summary_.vocabulary_size = tokenizer_->size();
    for (const std::string& doubt : doubts(config_, *tokenizer_)) report("warning: " + doubt);
    if (!row_tokenizer_) tokenize_rows();
    finish_tokens();
    write_shards();
    agree([this] {
      if (!is_root()) return;
      write_small_files();
      staging_.publish();
    });
  }

  /// Lists the rows once more, of which the end of the scan has rejected some.
  void list_again() {
    if (!is_root()) return;
    lists_.emplace(config_, staging_, true);
    RowStream stream(config_);
    SourceRow row;
    while (stream.next(row)) lists_->add(row, status_of(table_, row), stream.files()[row.file].path);
  }

  void train_tokenizer() {
    const tokenize::TokenizerKind& kind = config_.tokenizer_kind();
    const auto trainer = kind.trainer(config_.tokenizer.settings, config_.ends_texts());
    tokenize::WordCounts own;
    if (!numbered_) agree([&] { count_words(config_, table_, group_, *trainer, own); });
    tokenize::WordCounts& counts = numbered_ ? numbered_->count(table_) : own;
    gather_counts(group_, counts);
    tokenize::TrainedVocabulary trained;
    agree([&] {
      if (is_root()) trained = trainer->train(counts.sorted(), static_cast<std::int32_t>(config_.tokenizer.train_size));
    });
    trained = comm::broadcast_object(group_, trained, 0);
    agree([&] {
      tokenizer_ = kind.make({.vocabulary = std::move(trained.vocabulary),
                              .merges = std::move(trained.merges),
                              .settings = config_.tokenizer.settings,
                              .sections = std::move(trained.sections)},
                             "the trained vocabulary");
    });
    report("trained a vocabulary of " + core::counted(tokenizer_->size(), "token"));
  }

  void tokenize_rows() {
    const auto begin = Clock::now();
    row_tokenizer_.emplace(config_, *tokenizer_, staging_.path(), group_);
    if (numbered_) {
      numbered_->tokenize(table_, *tokenizer_, *row_tokenizer_);
      numbered_.reset();
      summary_.tokenize_seconds += seconds_since(begin);
      return;
    }
    lists_.emplace(config_, staging_, is_root());
    RowStream stream(config_);
    SourceRow row;
    std::int64_t rows = 0;
    while (stream.next(row)) {
      ++rows;
      const auto at = static_cast<std::size_t>(row.index);
      const RowStatus status = status_of(table_, row);
      lists_->add(row, status, stream.files()[row.file].path);
      row_tokenizer_->add(row, status, table_.answers.empty() ? no_answer : table_.answers[at]);
    }
    if (rows != table_.rows()) {
      throw Error(ExitCode::data, "The source files shrank while they were read: " + core::counted(rows, "row") +
                                      " now. Run bert_hpc_prep again when they no longer change.");
    }
    summary_.tokenize_seconds = seconds_since(begin);
  }

  void finish_tokens() {
    const auto begin = Clock::now();
    lists_->close();
    store_ = row_tokenizer_->finish(table_.rows());
    summary_.tokens = row_tokenizer_->counts();
    row_tokenizer_.reset();
    summary_.tokenize_seconds = group_.maximum(summary_.tokenize_seconds + seconds_since(begin));
    report("tokenized " + core::format_bytes(summary_.tokens.text_bytes));
  }

  void write_shards() {
    const tokenize::TokenizerSpec spec = tokenizer_->spec();
    data::ShardInfo info = shard_info(config_, table_, *tokenizer_);
    info.tokenizer_hash = spec.hash;
    std::int64_t number = 0;  // over all splits: shard k is rank k mod ranks's
    for (int s = 0; s < split_count; ++s) {
      const auto split = static_cast<Split>(s);
      std::optional<SplitLayout> made;
      agree([&] { made.emplace(split, config_, table_, *store_, *tokenizer_); });
      const SplitLayout& layout = *made;
      info.has_texts = config_.stores_texts() && split != Split::train;
      SplitSummary& summary = summary_.splits[static_cast<std::size_t>(s)];
      summary.sequences = layout.sequences();
      summary.tokens = layout.tokens();
      summary.queries = layout.queries();
      summary.answerable = layout.answerable();
      if (config_.pairs_documents()) count_pairs(layout);
      summary.shards = static_cast<std::int64_t>(layout.shards().size());
      for (std::int64_t index = 0; index < layout.sequences(); ++index) {
        summary.longest = std::max(summary.longest, layout.length(index));
      }
      for (std::size_t k = 0; k < layout.shards().size(); ++k) {
        if (number++ % group_.size() == group_.rank()) write_shard(layout, split, k, info, spec.text);
      }
    }
    store_.reset();
    group_.barrier();
  }

  void count_pairs(const SplitLayout& layout) {
    const std::vector<std::string> names = class_names(config_.pair_kind());
    const std::int64_t counts[] = {layout.sequences() - layout.other_pairs(), layout.other_pairs()};
    summary_.labels.resize(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      summary_.labels[i].first = names[i];
      summary_.labels[i].second += counts[i];
    }
  }

  void write_shard(const SplitLayout& layout, Split split, std::size_t k, data::ShardInfo info,
                   const std::string& tokenizer) const {
    char name[32];
    std::snprintf(name, sizeof name, "%s-%05zu.h5", to_string(split), k);
    const auto [begin, end, tokens] = layout.shards()[k];
    info.sequences = end - begin;
    info.tokens = tokens;
    data::ShardWriter writer(staging_.file(name), info, config_.has_pairs(),
                             config_.output.compression == "none" ? data::Compression::none : data::Compression::gzip);
    writer.add_tokenizer(tokenizer);
    SplitLayout::Sequence sequence;
    for (std::int64_t index = begin; index < end; ++index) {
      layout.read(index, sequence);
      writer.add(sequence.ids, sequence.token_types, sequence.label, sequence.source_index, sequence.parts());
    }
    writer.finish();
  }

  void write_small_files() const {
    for (const auto& [name, text] : tokenizer_->files(config_.tokenizer.max_tokens)) {
      io::write_text_file(staging_.file(name), text);
    }
    io::write_text_file(staging_.file("prep.toml"), resolved_toml(config_));
  }

  const PrepConfig& config_;
  comm::Communicator& group_;
  const std::function<void(const std::string&)>& say_;
  Staging staging_;
  RowTable table_;
  std::unique_ptr<tokenize::Tokenizer> tokenizer_;
  std::optional<RowLists> lists_;
  std::optional<NumberedRows> numbered_;  // where a vocabulary is trained and the text is read once
  std::optional<RowTokenizer> row_tokenizer_;
  std::unique_ptr<RowStore> store_;
  Summary summary_;
};

}  // namespace

void agree(comm::Communicator& group, const std::function<void()>& step) {
  comm::agree(group, step, memory_advice);
}

Error as_error(const std::exception& thrown) {
  return core::as_error(thrown, memory_advice);
}

Summary prepare(const PrepConfig& config, comm::Communicator& group,
                const std::function<void(const std::string&)>& say) {
  return Preparation(config, group, say).run();
}

}  // namespace bert_hpc::prep
