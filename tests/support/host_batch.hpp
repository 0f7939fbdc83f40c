// A micro-batch made from plain vectors, for tests and benchmarks: owns every array that core::MicroBatch points to, in
// memory that kernels can access.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/length_order.hpp"
#include "bert_hpc/core/micro_batch.hpp"
#include "support/vector.hpp"

namespace bert_hpc::test {

class HostBatch {
 public:
  /// ids, types: all tokens of all sequences; lengths: one per sequence.
  HostBatch(const std::vector<std::int32_t>& ids, const std::vector<std::int32_t>& types,
            const std::vector<std::int32_t>& lengths)
      : ids_(ids.begin(), ids.end()), types_(types.begin(), types.end()) {
    offsets_ = {0};
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      for (std::int32_t p = 0; p < lengths[b]; ++p) {
        sequence_.push_back(static_cast<std::int32_t>(b));
        position_.push_back(p);
      }
      first_rows_.push_back(offsets_.back());
      last_rows_.push_back(offsets_.back() + lengths[b] - 1);
      last_positions_.push_back(lengths[b] - 1);
      first_offsets_.push_back(static_cast<std::int32_t>(b));
      offsets_.push_back(offsets_.back() + lengths[b]);
      samples_.push_back(static_cast<std::int64_t>(1000 + 7 * b));
    }
    first_offsets_.push_back(static_cast<std::int32_t>(lengths.size()));
    first_sequence_.resize(lengths.size());
    std::iota(first_sequence_.begin(), first_sequence_.end(), 0);
    zeros_.assign(lengths.size(), 0);
    sort_ids();
    sequences_ = static_cast<std::int64_t>(lengths.size());
    order_lengths(lengths);
    max_length_ = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  }
  HostBatch(const HostBatch&) = delete;
  HostBatch& operator=(const HostBatch&) = delete;

  void set_classes(const std::vector<std::int32_t>& labels) { classes_.assign(labels.begin(), labels.end()); }
  /// (sequences, columns)
  void set_values(const std::vector<float>& values) { values_.assign(values.begin(), values.end()); }
  /// Values are from 0 to 1, for the sigmoids of outputs.
  void set_bounded() { bounded_ = true; }
  /// Rows [begin, end) of each query; values are 1 for what is relevant.
  void set_lists(const std::vector<std::int32_t>& lists) { lists_.assign(lists.begin(), lists.end()); }
  void set_samples(const std::vector<std::int64_t>& samples) { samples_.assign(samples.begin(), samples.end()); }
  /// Tokens of each sequence without padding, which its other rows become.
  void set_lengths(const std::vector<std::int32_t>& real) {
    real_lengths_.assign(real.begin(), real.end());
    order_lengths(real);
  }
  /// Rows ascending, with the ids to predict there.
  void set_masked(const std::vector<std::int32_t>& rows, const std::vector<std::int32_t>& labels) {
    masked_rows_.assign(rows.begin(), rows.end());
    masked_labels_.assign(labels.begin(), labels.end());
    masked_offsets_.assign(static_cast<std::size_t>(sequences_) + 1, 0);
    for (const std::int32_t row : rows) {
      const auto r = static_cast<std::size_t>(row);
      masked_sequence_.push_back(sequence_[r]);
      masked_position_.push_back(position_[r]);
      ++masked_offsets_[static_cast<std::size_t>(sequence_[r]) + 1];
    }
    std::partial_sum(masked_offsets_.begin(), masked_offsets_.end(), masked_offsets_.begin());
  }
  /// After set_masked(): classes of the sequences, which the head predicts beside masked tokens. No first token is
  /// masked.
  void set_pairs(const std::vector<std::int32_t>& classes) {
    std::int32_t row = 0;
    for (std::size_t s = 0; s < classes.size(); ++s) {
      pair_offsets_.push_back(row);
      const auto add = [&](std::int32_t token) {
        pair_index_.push_back(token);
        pair_sequence_.push_back(static_cast<std::int32_t>(s));
        pair_position_.push_back(position_[static_cast<std::size_t>(token)]);
        return row++;
      };
      of_first_.push_back(add(first_rows_[s]));
      for (std::int32_t m = masked_offsets_[s]; m < masked_offsets_[s + 1]; ++m) {
        of_masked_.push_back(add(masked_rows_[static_cast<std::size_t>(m)]));
      }
    }
    pair_offsets_.push_back(row);
    pair_classes_.assign(masked_labels_.begin(), masked_labels_.end());
    for (const std::int32_t label : classes) pair_classes_.push_back(label);
  }
  /// Positions of the first and the last token of each sequence's span.
  void set_spans(const std::vector<std::int32_t>& spans) {
    spans_.assign(spans.begin(), spans.end());
    all_rows_.resize(ids_.size());
    std::iota(all_rows_.begin(), all_rows_.end(), 0);
  }

  // Views live as long as the batch.
  /// The head reads first tokens.
  const core::MicroBatch& view() const {
    core::MicroBatch& view = view_ = without_targets();
    view.targets.rows = {sequences_, first_offsets_.data(), first_sequence_.data(), zeros_.data()};
    view.targets.index = first_rows_.data();
    if (!classes_.empty()) view.targets.get<core::ClassTargets>().data = classes_.data();
    if (!values_.empty()) {
      view.targets.get<core::ValueTargets>() = {values_.data(),
                                                std::ssize(values_) / std::max<std::int64_t>(1, sequences_), bounded_};
    }
    if (!lists_.empty()) {
      view.targets.get<core::ListTargets>() = {lists_.data(), std::ssize(lists_) / 2};
    }
    return view;
  }
  /// The head reads last tokens.
  const core::MicroBatch& last_tokens() const {
    core::MicroBatch& view = last_view_ = this->view();
    view.targets.rows.position = last_positions_.data();
    view.targets.index = last_rows_.data();
    return view;
  }
  /// After set_spans(): the head reads all tokens.
  const core::MicroBatch& all_tokens() const {
    core::MicroBatch& view = span_view_ = without_targets();
    view.targets = {.rows = view.tokens, .index = all_rows_.data()};
    view.targets.get<core::SpanTargets>().data = spans_.data();
    return view;
  }
  /// After set_masked(): the head reads masked tokens.
  const core::MicroBatch& masked() const {
    core::MicroBatch& view = masked_view_ = without_targets();
    view.targets = {
        .rows = {std::ssize(masked_rows_), masked_offsets_.data(), masked_sequence_.data(), masked_position_.data()},
        .index = masked_rows_.data()};
    view.targets.get<core::ClassTargets>().data = masked_labels_.data();
    return view;
  }
  /// After set_pairs(): the head reads masked tokens and first tokens.
  const core::MicroBatch& masked_and_first() const {
    core::MicroBatch& view = pair_view_ = masked();
    const core::TokenRows masked = view.targets.rows;
    view.targets = {
        .rows = {std::ssize(pair_index_), pair_offsets_.data(), pair_sequence_.data(), pair_position_.data()},
        .index = pair_index_.data(),
        .masked = {masked, of_masked_.data()},
        .first = {{sequences_, first_offsets_.data(), first_sequence_.data(), zeros_.data()}, of_first_.data()}};
    view.targets.get<core::ClassTargets>().data = pair_classes_.data();
    return view;
  }
  const core::MicroBatch& view(bool masked_tokens) const {
    return !masked_tokens ? view() : pair_index_.empty() ? masked() : masked_and_first();
  }

 private:
  core::MicroBatch without_targets() const {
    core::MicroBatch view;
    view.sequences = sequences_;
    view.max_length = max_length_;
    view.tokens = {std::ssize(ids_), offsets_.data(), sequence_.data(), position_.data()};
    view.input_ids = ids_.data();
    view.token_type_ids = types_.data();
    view.sample = samples_.data();
    if (!real_lengths_.empty()) view.lengths = real_lengths_.data();
    view.sorted_ids = {static_cast<std::int64_t>(unique_.size()), unique_.data(), segments_.data(), order_.data()};
    view.by_length = by_length_;
    view.by_length.first = longest_first_.data();
    view.by_length.length = longest_lengths_.data();
    return view;
  }

  void order_lengths(const std::vector<std::int32_t>& real) {
    const std::vector<std::int32_t> offsets(offsets_.begin(), offsets_.end());
    core::MicroBatch host;
    host.sequences = sequences_;
    host.tokens.offsets = offsets.data();
    host.lengths = real.data();
    live_ = core::Buffer<std::int32_t>(real.empty() ? 0 : *std::max_element(real.begin(), real.end()),
                                       core::MemoryKind::host);
    std::vector<std::int32_t> first(real.size()), length(real.size());
    by_length_ = core::order_by_length(host, first.data(), length.data(), live_.data());
    longest_first_.assign(first.begin(), first.end());
    longest_lengths_.assign(length.begin(), length.end());
  }

  void sort_ids() {
    order_.resize(ids_.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(), [this](std::int32_t a, std::int32_t b) {
      return ids_[static_cast<std::size_t>(a)] < ids_[static_cast<std::size_t>(b)];
    });
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const std::int32_t id = ids_[static_cast<std::size_t>(order_[i])];
      if (unique_.empty() || unique_.back() != id) {
        unique_.push_back(id);
        segments_.push_back(static_cast<std::int32_t>(i));
      }
    }
    segments_.push_back(static_cast<std::int32_t>(order_.size()));
  }

  test::Vector<std::int32_t> ids_, types_, offsets_, sequence_, position_, first_rows_, first_offsets_, first_sequence_,
      last_rows_, last_positions_, zeros_, unique_, segments_, order_, classes_, masked_rows_, masked_labels_,
      masked_offsets_, masked_sequence_, masked_position_, longest_first_, longest_lengths_, real_lengths_;
  core::Buffer<std::int32_t> live_;
  core::LengthOrder by_length_;
  test::Vector<float> values_;
  test::Vector<std::int64_t> samples_;
  test::Vector<std::int32_t> spans_, all_rows_, lists_;
  test::Vector<std::int32_t> pair_index_, pair_offsets_, pair_sequence_, pair_position_, pair_classes_, of_masked_,
      of_first_;
  std::int64_t sequences_ = 0, max_length_ = 0;
  bool bounded_ = false;
  mutable core::MicroBatch view_, masked_view_, span_view_, last_view_, pair_view_;
};

}  // namespace bert_hpc::test
