// A micro-batch made from plain vectors, for tests and benchmarks: owns every array that core::MicroBatch points to, in
// memory that kernels can access.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "bert_hpc/core/micro_batch.hpp"
#include "support/vector.hpp"

namespace bert_hpc::tests {

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
      first_offsets_.push_back(static_cast<std::int32_t>(b));
      offsets_.push_back(offsets_.back() + lengths[b]);
      samples_.push_back(static_cast<std::int64_t>(1000 + 7 * b));
    }
    first_offsets_.push_back(static_cast<std::int32_t>(lengths.size()));
    first_sequence_.resize(lengths.size());
    std::iota(first_sequence_.begin(), first_sequence_.end(), 0);
    zeros_.assign(lengths.size(), 0);
    sort_ids();
    view_.sequences = static_cast<std::int64_t>(lengths.size());
    view_.max_length = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
    view_.tokens = {static_cast<std::int64_t>(ids_.size()), offsets_.data(), sequence_.data(), position_.data()};
    view_.input_ids = ids_.data();
    view_.token_type_ids = types_.data();
    view_.sample = samples_.data();
    view_.sorted_ids = {static_cast<std::int64_t>(unique_.size()), unique_.data(), segments_.data(), order_.data()};
    view_.targets.rows = {view_.sequences, first_offsets_.data(), first_sequence_.data(), zeros_.data()};
    view_.targets.index = first_rows_.data();
  }
  HostBatch(const HostBatch&) = delete;
  HostBatch& operator=(const HostBatch&) = delete;

  void set_classes(const std::vector<std::int32_t>& labels) {
    classes_.assign(labels.begin(), labels.end());
    view_.targets.classes = classes_.data();
  }
  /// (sequences, columns)
  void set_values(const std::vector<float>& values) {
    values_.assign(values.begin(), values.end());
    view_.targets.values = values_.data();
    view_.targets.columns = std::ssize(values) / std::max<std::int64_t>(1, view_.sequences);
  }
  /// Values are from 0 to 1, for the sigmoids of outputs.
  void set_bounded() { view_.targets.bounded = true; }
  /// Rows [begin, end) of each query; values are 1 for what is relevant.
  void set_lists(const std::vector<std::int32_t>& lists) {
    lists_.assign(lists.begin(), lists.end());
    view_.targets.lists = lists_.data();
    view_.targets.list_count = static_cast<std::int64_t>(lists.size()) / 2;
  }
  void set_samples(const std::vector<std::int64_t>& samples) {
    samples_.assign(samples.begin(), samples.end());
    view_.sample = samples_.data();
  }
  /// Call it last. Rows ascending, with the ids to predict there.
  void set_masked(const std::vector<std::int32_t>& rows, const std::vector<std::int32_t>& labels) {
    masked_rows_.assign(rows.begin(), rows.end());
    masked_labels_.assign(labels.begin(), labels.end());
    masked_offsets_.assign(static_cast<std::size_t>(view_.sequences) + 1, 0);
    for (const std::int32_t row : masked_rows_) {
      const auto r = static_cast<std::size_t>(row);
      masked_sequence_.push_back(sequence_[r]);
      masked_position_.push_back(position_[r]);
      ++masked_offsets_[static_cast<std::size_t>(sequence_[r]) + 1];
    }
    std::partial_sum(masked_offsets_.begin(), masked_offsets_.end(), masked_offsets_.begin());
    masked_view_ = view_;
    masked_view_.targets = {.rows = {static_cast<std::int64_t>(masked_rows_.size()), masked_offsets_.data(),
                                     masked_sequence_.data(), masked_position_.data()},
                            .index = masked_rows_.data(),
                            .classes = masked_labels_.data()};
  }

  /// Call it last: its head reads all tokens. Positions of the first and the last token of each sequence's span.
  void set_spans(const std::vector<std::int32_t>& spans) {
    spans_.assign(spans.begin(), spans.end());
    all_rows_.resize(ids_.size());
    std::iota(all_rows_.begin(), all_rows_.end(), 0);
    span_view_ = view_;
    span_view_.targets = {.rows = view_.tokens, .index = all_rows_.data(), .spans = spans_.data()};
  }

  const core::MicroBatch& view() const { return view_; }  ///< its head reads first tokens
  /// After set_spans(): its head reads all tokens.
  const core::MicroBatch& all_tokens() const { return span_view_; }
  /// After set_masked(): its head reads masked tokens.
  const core::MicroBatch& masked() const { return masked_view_; }
  const core::MicroBatch& view(bool masked) const { return masked ? masked_view_ : view_; }

 private:
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
      zeros_, unique_, segments_, order_, classes_, masked_rows_, masked_labels_, masked_offsets_, masked_sequence_,
      masked_position_;
  test::Vector<float> values_;
  test::Vector<std::int64_t> samples_;
  test::Vector<std::int32_t> spans_, all_rows_, lists_;
  core::MicroBatch view_, masked_view_, span_view_;
};

}  // namespace bert_hpc::tests
