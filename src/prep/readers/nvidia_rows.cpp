// Shards of NVIDIA's recipes for BERT (DeepLearningExamples, create_pretraining_data.py): HDF5 with a padded row for
// each pair of passages, "[CLS] first [SEP] second [SEP]", its masks drawn once and for all. Here the tokens behind the
// masks are put back, as training draws masks of its own. Texts are ids of tokens, decimal numbers between blanks.
#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "bert_hpc/io/hdf5/hdf5.hpp"
#include "bert_hpc/prep/readers/row_reader.hpp"
#include "column_words.hpp"

namespace bert_hpc::prep {
namespace {

constexpr std::int64_t most_block_bytes = std::int64_t{64} << 20;

enum Column : std::size_t { tokens, first, second, label };

/// A dataset with a row for each pair.
struct Part {
  io::Dataset dataset;
  std::int64_t columns = 1;
  std::vector<std::int32_t> block{};

  void read(std::int64_t begin, std::int64_t rows) {
    block.resize(static_cast<std::size_t>(rows * columns));
    dataset.read_rows(begin, block);
  }
  std::span<const std::int32_t> row(std::int64_t index) const {
    return std::span(block).subspan(static_cast<std::size_t>(index * columns), static_cast<std::size_t>(columns));
  }
};

class NvidiaRows : public RowReader {
 public:
  NvidiaRows(const std::string& file, const TextFormat& format, const std::vector<std::string>& columns)
      : file_(io::Hdf5File::open_read(file, core::ExitCode::data)),
        wanted_(column_indices(file, format, format.columns, columns)),
        ids_(part("input_ids", 2)),
        mask_(part("input_mask", 2)),
        segments_(part("segment_ids", 2)),
        masked_at_(part("masked_lm_positions", 2)),
        masked_(part("masked_lm_ids", 2)),
        labels_(part("next_sentence_labels", 1)),
        rows_(ids_.dataset.info().extents[0]) {
    for (Part* const part : {&mask_, &segments_, &masked_at_, &masked_, &labels_}) {
      const bool equal = part->dataset.info().extents[0] == rows_;
      const bool fits = part == &masked_ ? part->columns == masked_at_.columns
                                         : part == &masked_at_ || part == &labels_ || part->columns == ids_.columns;
      if (equal && fits) continue;
      throw core::Error(core::ExitCode::data, file + ": the shape of '" + part->dataset.name() + "' is " +
                                                  part->dataset.info().shape_text() + ", that of 'input_ids' " +
                                                  ids_.dataset.info().shape_text() + ": the file is damaged.");
    }
    const std::vector<std::int64_t>& chunk = ids_.dataset.info().chunk;
    const std::int64_t fitting =
        std::max<std::int64_t>(1, most_block_bytes / (4 * std::max<std::int64_t>(1, ids_.columns)));
    block_rows_ = std::min(fitting, chunk.empty() ? fitting : chunk[0]);
  }

  bool next(Row& row) override {
    if (next_ == rows_) return false;
    const std::int64_t index = next_ % block_rows_;
    if (index == 0) {
      const std::int64_t rows = std::min(block_rows_, rows_ - next_);
      for (Part* const part : {&ids_, &mask_, &segments_, &masked_at_, &masked_, &labels_}) part->read(next_, rows);
    }
    row.number = ++next_;
    row.line = 0;
    row.problem = read(index);
    for (std::string& text : texts_) text.clear();
    if (row.problem.empty()) write_texts(index);
    row.values.clear();
    for (const std::size_t column : wanted_) row.values.emplace_back(texts_[column]);
    return true;
  }

 private:
  Part part(const char* name, int rank) const {
    Part part{file_.dataset(name)};
    part.dataset.expect<std::int32_t>(rank);
    part.dataset.require_stored();
    if (rank == 2) part.columns = part.dataset.info().extents[1];
    return part;
  }

  /// Reads a row of the block, with its masked tokens put back, into row_. Returns what is wrong with it, or "".
  std::string read(std::int64_t index) {
    const std::span<const std::int32_t> ids = ids_.row(index), mask = mask_.row(index), segments = segments_.row(index);
    row_.assign(ids.begin(), ids.end());
    const std::span<const std::int32_t> at = masked_at_.row(index), originals = masked_.row(index);
    const auto real = static_cast<std::size_t>(std::find(mask.begin(), mask.end(), 0) - mask.begin());
    row_.resize(real);
    if (real < 3) return "has fewer than three tokens";
    for (std::size_t i = 0; i < at.size() && at[i] != 0; ++i) {
      if (at[i] < 0 || static_cast<std::size_t>(at[i]) >= real) return "has a masked position behind its tokens";
      row_[static_cast<std::size_t>(at[i])] = originals[i];
    }
    const auto end = segments.begin() + static_cast<std::ptrdiff_t>(real);
    middle_ = static_cast<std::size_t>(std::find(segments.begin(), end, 1) - segments.begin());
    if (middle_ < 3 || middle_ + 1 == real) return "has a passage without tokens";
    return "";
  }

  void write_texts(std::int64_t index) {
    const std::size_t end = row_.size() - 1;  // without the last [SEP]
    add(1, middle_ == row_.size() ? end : middle_ - 1, texts_[first]);
    if (middle_ < end) add(middle_, end, texts_[second]);
    texts_[tokens] = texts_[first];
    if (middle_ < end) add(middle_, end, texts_[tokens]);
    texts_[label] = std::to_string(labels_.row(index)[0]);
  }

  /// Appends tokens [begin, end) of row_ to `text`.
  void add(std::size_t begin, std::size_t end, std::string& text) const {
    char digits[16];
    for (std::size_t i = begin; i < end; ++i) {
      if (!text.empty()) text += ' ';
      text.append(digits, std::to_chars(digits, digits + sizeof digits, row_[i]).ptr);
    }
  }

  io::Hdf5File file_;
  std::vector<std::size_t> wanted_;
  Part ids_, mask_, segments_, masked_at_, masked_, labels_;
  std::int64_t rows_, block_rows_ = 1, next_ = 0;
  std::vector<std::int32_t> row_;
  std::size_t middle_ = 0;  // of row_: index of the second passage's first token
  std::string texts_[4];    // by Column
};

std::unique_ptr<RowReader> open(const std::string& file, const RowFormat& format,
                                const std::vector<std::string>& columns) {
  return std::make_unique<NvidiaRows>(file, *format.format, columns);
}

}  // namespace

const TextFormat& nvidia_format() {
  static const TextFormat format{.name = "nvidia_hdf5",
                                 .title = "NVIDIA's HDF5 shards for BERT",
                                 .columns = {"tokens", "first", "second", "label"},
                                 .is_text = false,
                                 .holds_ids = true,
                                 .open = open};
  return format;
}

}  // namespace bert_hpc::prep
