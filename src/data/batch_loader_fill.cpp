// What a step holds: the plan, then each micro-batch's rows, targets and sorted ids.
#include <algorithm>
#include <memory>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/batch_loader.hpp"

namespace bert_hpc::data {

void BatchLoader::prepare(std::int64_t step, Slot& slot) {
  LoadedStep& loaded = slot.step;
  sampler_.batch(step, samples_);
  lengths_.resize(samples_.size());
  for (std::size_t i = 0; i < samples_.size(); ++i) lengths_[i] = reader_.table().length(samples_[i]);
  planner_.plan(samples_, lengths_, loaded.plan);

  loaded.step = step;
  loaded.epoch = sampler_.epoch_of(step);
  loaded.target_count = loaded.sequences = loaded.tokens = 0;
  loaded.global_target_count = masker_ ? -1 : loaded.plan.sequences();
  slot.used = 0;
  const auto replica = static_cast<std::size_t>(options_.replica);
  const int begin = loaded.plan.replica_begin[replica], end = loaded.plan.replica_begin[replica + 1];
  loaded.micro_batches.resize(static_cast<std::size_t>(end - begin));
  for (int m = begin; m < end; ++m) {
    LoadedMicroBatch& micro_batch = loaded.micro_batches[static_cast<std::size_t>(m - begin)];
    micro_batch.first_chunk = loaded.plan.micro_begin[static_cast<std::size_t>(m)];
    micro_batch.chunks = loaded.plan.micro_begin[static_cast<std::size_t>(m) + 1] - micro_batch.first_chunk;
    fill(loaded.plan.micro_batch(m), slot, micro_batch);
    loaded.target_count += micro_batch.target_count;
    loaded.sequences += micro_batch.on_host.sequences;
    loaded.tokens += micro_batch.on_host.tokens.count;
  }
}

namespace {

/// Where a micro-batch's arrays lie after the memory they are in was copied.
class Relocation {
 public:
  Relocation(const std::byte* from, const std::byte* to) : from_(from), to_(to) {}

  core::MicroBatch operator()(const core::MicroBatch& batch) const {
    core::MicroBatch moved = batch;
    for (core::TokenRows* rows : {&moved.tokens, &moved.masked, &moved.first}) {
      move(rows->offsets);
      move(rows->sequence);
      move(rows->position);
    }
    move(moved.input_ids);
    move(moved.token_type_ids);
    move(moved.sample);
    move(moved.sorted_ids.ids);
    move(moved.sorted_ids.segments);
    move(moved.sorted_ids.order);
    move(moved.class_labels);
    move(moved.values);
    move(moved.masked_rows);
    move(moved.masked_labels);
    move(moved.first_rows);
    return moved;
  }

 private:
  template <class T>
  void move(const T*& pointer) const {
    if (pointer == nullptr) return;
    pointer = reinterpret_cast<const T*>(to_ + (reinterpret_cast<const std::byte*>(pointer) - from_));
  }

  const std::byte *from_, *to_;
};

}  // namespace

/// One copy for the whole step. Where the host sees device memory, the arrays are there already.
void BatchLoader::upload(Slot& slot) {
  const std::byte* const there = slot.device.size() > 0 ? slot.device.data() : slot.memory;
  if (slot.device.size() > 0) {
    core::start_copy_to_device(slot.memory, slot.device.data(), slot.used);
    slot.copied.set();
  }
  const Relocation relocated(slot.memory, there);
  for (LoadedMicroBatch& micro : slot.step.micro_batches) micro.batch = relocated(micro.on_host);
}

template <class T>
T* BatchLoader::take(Slot& slot, std::int64_t count) const {
  void* memory = slot.memory + slot.used;
  std::size_t space = slot_bytes_ - slot.used;
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
  core::require(std::align(array_alignment, bytes, memory, space) != nullptr,
                "a step needs more memory than was planned");
  slot.used = static_cast<std::size_t>(static_cast<std::byte*>(memory) + bytes - slot.memory);
  return static_cast<T*>(memory);
}

void BatchLoader::fill(std::span<const core::PlannedSample> samples, Slot& slot, LoadedMicroBatch& loaded) {
  const auto sequences = static_cast<std::int64_t>(samples.size());
  std::int64_t tokens = 0;
  for (const core::PlannedSample& sample : samples) tokens += sample.length;
  auto* offsets = take<std::int32_t>(slot, sequences + 1);
  auto* sequence = take<std::int32_t>(slot, tokens);
  auto* position = take<std::int32_t>(slot, tokens);
  auto* ids = take<std::int32_t>(slot, tokens);
  auto* types = take<std::int32_t>(slot, tokens);
  auto* sample_index = take<std::int64_t>(slot, sequences);
  auto* first_offsets = take<std::int32_t>(slot, sequences + 1);
  auto* first_sequence = take<std::int32_t>(slot, sequences);
  auto* first_position = take<std::int32_t>(slot, sequences);
  auto* first_rows = take<std::int32_t>(slot, sequences);

  core::MicroBatch& batch = loaded.on_host = {};
  std::int32_t row = 0;
  for (std::int32_t s = 0; s < static_cast<std::int32_t>(sequences); ++s) {
    const core::PlannedSample& sample = samples[static_cast<std::size_t>(s)];
    offsets[s] = first_rows[s] = row;
    first_offsets[s] = first_sequence[s] = s;
    first_position[s] = 0;
    sample_index[s] = sample.index;
    reader_.read(sample.index, ids + row, types + row);
    std::fill_n(sequence + row, sample.length, s);
    for (std::int32_t p = 0; p < sample.length; ++p) position[row + p] = p;
    row += sample.length;
    batch.max_length = std::max<std::int64_t>(batch.max_length, sample.length);
  }
  offsets[sequences] = row;
  first_offsets[sequences] = static_cast<std::int32_t>(sequences);

  batch.sequences = sequences;
  batch.tokens = {tokens, offsets, sequence, position};
  batch.first = {sequences, first_offsets, first_sequence, first_position};
  batch.input_ids = ids;
  batch.token_type_ids = types;
  batch.sample = sample_index;
  batch.first_rows = first_rows;
  loaded.target_count = sequences;
  if (!reader_.classes().empty() && options_.task == ShardTask::classification) {
    auto* labels = take<std::int32_t>(slot, sequences);
    for (std::int64_t s = 0; s < sequences; ++s)
      labels[s] = reader_.classes()[static_cast<std::size_t>(sample_index[s])];
    batch.class_labels = labels;
  } else if (!reader_.values().empty() && options_.task == ShardTask::regression) {
    auto* values = take<float>(slot, sequences);
    for (std::int64_t s = 0; s < sequences; ++s) {
      const float label = reader_.values()[static_cast<std::size_t>(sample_index[s])];
      values[s] = options_.label_scale.standardized(label);
    }
    batch.values = values;
  } else if (masker_) {
    fill_masks(samples, ids, slot, loaded);
  }
  // Last, because masking replaces ids.
  auto* distinct = take<std::int32_t>(slot, tokens);
  auto* segments = take<std::int32_t>(slot, tokens + 1);
  auto* order = take<std::int32_t>(slot, tokens);
  const std::int64_t unique = id_sorter_.sort({ids, static_cast<std::size_t>(tokens)}, distinct, segments, order);
  batch.sorted_ids = {unique, distinct, segments, order};
}

void BatchLoader::fill_masks(std::span<const core::PlannedSample> samples, std::int32_t* ids, Slot& slot,
                             LoadedMicroBatch& loaded) {
  core::MicroBatch& batch = loaded.on_host;
  std::int64_t most = 0;
  for (const core::PlannedSample& sample : samples) most += masker_->most(sample.length);
  auto* offsets = take<std::int32_t>(slot, batch.sequences + 1);
  auto* sequence = take<std::int32_t>(slot, most);
  auto* position = take<std::int32_t>(slot, most);
  auto* rows = take<std::int32_t>(slot, most);
  auto* labels = take<std::int32_t>(slot, most);
  std::int32_t masked = 0;
  for (std::int32_t s = 0; s < static_cast<std::int32_t>(batch.sequences); ++s) {
    const core::PlannedSample& sample = samples[static_cast<std::size_t>(s)];
    const std::int32_t begin = batch.tokens.offsets[s];
    offsets[s] = masked;
    const auto count = static_cast<std::int32_t>(masker_->mask(sample.index, slot.step.epoch,
                                                               {ids + begin, static_cast<std::size_t>(sample.length)},
                                                               position + masked, labels + masked));
    for (std::int32_t i = masked; i < masked + count; ++i) {
      sequence[i] = s;
      rows[i] = begin + position[i];
    }
    masked += count;
  }
  offsets[batch.sequences] = masked;
  batch.masked = {masked, offsets, sequence, position};
  batch.masked_rows = rows;
  batch.masked_labels = labels;
  loaded.target_count = masked;
}

}  // namespace bert_hpc::data
