// Targets that are tokens of the batch: the next ones, masked ones, and first tokens beside these.
#include <algorithm>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/batch_loader.hpp"

namespace bert_hpc::data {

void BatchLoader::fill_next_tokens(std::span<const core::PlannedSample> samples, Slot& slot,
                                   core::MicroBatch& batch) const {
  std::int64_t rows = 0;
  for (const core::PlannedSample& sample : samples) rows += sample.length - 1;
  auto* offsets = take<std::int32_t>(slot, batch.sequences + 1);
  auto* sequence = take<std::int32_t>(slot, rows);
  auto* position = take<std::int32_t>(slot, rows);
  auto* index = take<std::int32_t>(slot, rows);
  auto* targets = take<std::int32_t>(slot, rows);
  std::int32_t row = 0;
  for (std::int32_t s = 0; s < static_cast<std::int32_t>(batch.sequences); ++s) {
    offsets[s] = row;
    const std::int32_t begin = batch.tokens.offsets[s], last = samples[static_cast<std::size_t>(s)].length - 1;
    for (std::int32_t p = 0; p < last; ++p, ++row) {
      sequence[row] = s;
      position[row] = p;
      index[row] = begin + p;
      targets[row] = batch.input_ids[begin + p + 1];
    }
  }
  offsets[batch.sequences] = row;
  batch.targets = {.rows = {rows, offsets, sequence, position}, .index = index};
  batch.targets.get<core::ClassTargets>().data = targets;
}

void BatchLoader::fill_masked_tokens(std::span<const core::PlannedSample> samples, std::int32_t* ids, Slot& slot,
                                     core::MicroBatch& batch) {
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
  batch.targets = {.rows = {masked, offsets, sequence, position}, .index = rows};
  batch.targets.get<core::ClassTargets>().data = labels;
}

/// The masked tokens that the batch has become a part, and the first token of each sequence another. Throws Error(data)
/// if a first token is masked: rows of a head are distinct.
void BatchLoader::add_first_tokens(Slot& slot, core::MicroBatch& batch) const {
  const core::Targets masked = batch.targets;
  const std::int64_t rows = masked.rows.count + batch.sequences;
  auto* offsets = take<std::int32_t>(slot, batch.sequences + 1);
  auto* sequence = take<std::int32_t>(slot, rows);
  auto* position = take<std::int32_t>(slot, rows);
  auto* index = take<std::int32_t>(slot, rows);
  auto* classes = take<std::int32_t>(slot, rows);
  auto* of_masked = take<std::int32_t>(slot, masked.rows.count);
  auto* of_first = take<std::int32_t>(slot, batch.sequences);
  const std::span<const std::int32_t> labels = reader_.classes();
  const std::int32_t* const ids = masked.get<core::ClassTargets>().data;
  std::copy_n(ids, masked.rows.count, classes);
  std::int32_t row = 0;
  for (std::int32_t s = 0; s < static_cast<std::int32_t>(batch.sequences); ++s) {
    offsets[s] = of_first[s] = row;
    sequence[row] = s;
    position[row] = 0;
    index[row++] = batch.tokens.offsets[s];
    classes[masked.rows.count + s] = labels.empty() ? 0 : labels[static_cast<std::size_t>(batch.sample[s])];
    for (std::int32_t m = masked.rows.offsets[s]; m < masked.rows.offsets[s + 1]; ++m, ++row) {
      if (masked.rows.position[m] == 0) {
        throw core::Error(core::ExitCode::data,
                          "The shards' sequences do not begin with a special token, from which pairs are labelled; "
                          "prepare the text with a tokenizer whose template has one, such as [CLS].");
      }
      of_masked[m] = row;
      sequence[row] = s;
      position[row] = masked.rows.position[m];
      index[row] = masked.index[m];
    }
  }
  offsets[batch.sequences] = row;
  fill_one_token_each(slot, batch);
  batch.targets = {.rows = {rows, offsets, sequence, position},
                   .index = index,
                   .masked = {masked.rows, of_masked},
                   .first = {batch.targets.rows, of_first}};
  batch.targets.get<core::ClassTargets>().data = classes;
}

}  // namespace bert_hpc::data
