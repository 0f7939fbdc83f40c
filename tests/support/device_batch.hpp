// A copy of a micro-batch in device memory, as training has them: what is timed must not read the host's memory, which
// a GPU reaches over PCIe only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/micro_batch.hpp"

namespace bert_hpc::tests {

class DeviceBatch {
 public:
  /// Copies every array of `host`, which the host can read.
  explicit DeviceBatch(const core::MicroBatch& host) : view_(host) {
    const std::int64_t sequences = host.sequences, tokens = host.tokens.count;
    copy_rows(view_.tokens, sequences);
    copy_rows(view_.masked, sequences);
    copy_rows(view_.first, sequences);
    copy(view_.input_ids, tokens);
    copy(view_.token_type_ids, tokens);
    copy(view_.sample, sequences);
    copy(view_.sorted_ids.ids, host.sorted_ids.unique);
    copy(view_.sorted_ids.segments, host.sorted_ids.unique + 1);
    copy(view_.sorted_ids.order, tokens);
    copy(view_.class_labels, sequences);
    copy(view_.values, sequences);
    copy(view_.masked_rows, host.masked.count);
    copy(view_.masked_labels, host.masked.count);
    copy(view_.first_rows, sequences);
  }

  const core::MicroBatch& view() const { return view_; }

 private:
  void copy_rows(core::TokenRows& rows, std::int64_t sequences) {
    copy(rows.offsets, sequences + 1);
    copy(rows.sequence, rows.count);
    copy(rows.position, rows.count);
  }
  template <class T>
  void copy(const T*& array, std::int64_t count) {
    if (array == nullptr) return;
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    memory_.emplace_back(static_cast<std::int64_t>(bytes));
    core::copy_to_device(array, memory_.back().data(), bytes);
    array = reinterpret_cast<const T*>(memory_.back().data());
  }

  std::deque<core::Buffer<std::byte>> memory_;
  core::MicroBatch view_;
};

}  // namespace bert_hpc::tests
