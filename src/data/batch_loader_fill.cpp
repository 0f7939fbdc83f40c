// What a step holds: the plan, then each micro-batch's rows, targets and sorted ids.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/core/length_order.hpp"
#include "bert_hpc/core/rng.hpp"
#include "bert_hpc/data/batch_loader.hpp"

namespace bert_hpc::data {

void BatchLoader::prepare(std::int64_t step, Slot& slot) {
  LoadedStep& loaded = slot.step;
  sampler_.batch(step, samples_);
  lengths_.resize(samples_.size());
  const std::span<const std::int32_t> all = units_ ? units_->tokens() : reader_.table().lengths();
  for (std::size_t i = 0; i < samples_.size(); ++i) lengths_[i] = all[static_cast<std::size_t>(samples_[i])];
  planner_.plan(samples_, lengths_, loaded.plan);
  if (units_) units_->expand(loaded.plan);
  pad(loaded.plan, options_.plan.padding);

  loaded.step = step;
  loaded.epoch = sampler_.schedule().epoch_of(step);
  loaded.target_count = loaded.sequences = loaded.tokens = 0;
  loaded.global_target_count = targets_of(loaded.plan);
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

/// The same batch after the memory that its arrays lie in was copied.
core::MicroBatch relocated(core::MicroBatch batch, const std::byte* from, const std::byte* to) {
  core::visit_arrays(batch, [from, to]<class T>(const T*& array, std::int64_t) {
    if (array == nullptr) return;
    array = reinterpret_cast<const T*>(to + (reinterpret_cast<const std::byte*>(array) - from));
  });
  return batch;
}

/// Number of pairs of a row that the head reads and a token of its sequence; rows are in host memory.
double pairs_of(const core::TokenRows& rows, const core::MicroBatch& batch) {
  double pairs = 0;
  for (std::int64_t s = 0; s < batch.sequences; ++s) {
    const std::int32_t length = batch.tokens.offsets[s + 1] - batch.tokens.offsets[s];
    pairs += static_cast<double>(rows.offsets[s + 1] - rows.offsets[s]) * length;
  }
  return pairs;
}

}  // namespace

/// One copy for the whole step. Where the host sees device memory, the arrays are there already.
void BatchLoader::upload(Slot& slot) {
  const std::byte* const there = slot.device.size() > 0 ? slot.device.data() : slot.memory;
  if (slot.device.size() > 0) {
    core::start_copy_to_device(slot.memory, slot.device.data(), slot.used);
    slot.copied.set();
  }
  for (LoadedMicroBatch& micro : slot.step.micro_batches) micro.batch = relocated(micro.on_host, slot.memory, there);
}

void BatchLoader::fill(std::span<const core::PlannedSample> samples, Slot& slot, LoadedMicroBatch& loaded) {
  const auto sequences = static_cast<std::int64_t>(samples.size());
  std::int64_t tokens = 0;
  for (const core::PlannedSample& sample : samples) tokens += sample.rows();
  auto* offsets = take<std::int32_t>(slot, sequences + 1);
  auto* sequence = take<std::int32_t>(slot, tokens);
  auto* position = take<std::int32_t>(slot, tokens);
  auto* ids = take<std::int32_t>(slot, tokens);
  auto* types = take<std::int32_t>(slot, tokens);
  auto* sample_index = take<std::int64_t>(slot, sequences);

  core::MicroBatch& batch = loaded.on_host = {};
  std::int32_t row = 0;
  for (std::int32_t s = 0; s < static_cast<std::int32_t>(sequences); ++s) {
    const core::PlannedSample& sample = samples[static_cast<std::size_t>(s)];
    offsets[s] = row;
    sample_index[s] = sample.index;
    reader_.read(sample.index, ids + row, types + row);
    std::fill_n(ids + row + sample.length, sample.padding, pad_id_);
    std::fill_n(types + row + sample.length, sample.padding, 0);
    std::fill_n(sequence + row, sample.rows(), s);
    for (std::int32_t p = 0; p < sample.rows(); ++p) position[row + p] = p;
    row += sample.rows();
    batch.max_length = std::max<std::int64_t>(batch.max_length, sample.rows());
  }
  offsets[sequences] = row;

  batch.sequences = sequences;
  batch.tokens = {tokens, offsets, sequence, position};
  batch.input_ids = ids;
  batch.token_type_ids = types;
  batch.sample = sample_index;
  if (options_.plan.padding.pads()) fill_lengths(samples, slot, batch);
  switch (options_.task->rows) {
    case tasks::LogitPositions::masked_tokens:
      fill_masked_tokens(samples, ids, slot, batch);
      if (options_.task->labels_pairs) add_first_tokens(slot, batch);
      break;
    case tasks::LogitPositions::next_tokens:
      fill_next_tokens(samples, slot, batch);
      break;
    case tasks::LogitPositions::words:
      fill_words(slot, batch);
      break;
    case tasks::LogitPositions::all_tokens:
      fill_all_tokens(slot, batch);
      if (options_.task->has_text_rows()) {
        fill_texts(samples, slot, batch);
      } else {
        fill_labels(slot, batch);
      }
      break;
    case tasks::LogitPositions::first_tokens:
      fill_one_token_each(slot, batch);
      if (options_.task->has_text_rows()) {
        fill_texts(samples, slot, batch);
      } else {
        fill_labels(slot, batch);
        if (units_) fill_lists(samples, slot, batch);
      }
      break;
  }
  batch.tokens.pairs = pairs_of(batch.tokens, batch);
  batch.targets.rows.pairs = pairs_of(batch.targets.rows, batch);
  loaded.target_count = core::target_count(batch);
  // Last, because masking replaces ids.
  auto* distinct = take<std::int32_t>(slot, tokens);
  auto* segments = take<std::int32_t>(slot, tokens + 1);
  auto* order = take<std::int32_t>(slot, tokens);
  const std::int64_t unique = id_sorter_.sort({ids, static_cast<std::size_t>(tokens)}, distinct, segments, order);
  batch.sorted_ids = {unique, distinct, segments, order};
  auto* first = take<std::int32_t>(slot, sequences);
  auto* length = take<std::int32_t>(slot, sequences);
  batch.by_length = core::order_by_length(batch, first, length, take<std::int32_t>(slot, batch.max_length));
}

void BatchLoader::fill_lengths(std::span<const core::PlannedSample> samples, Slot& slot,
                               core::MicroBatch& batch) const {
  auto* lengths = take<std::int32_t>(slot, batch.sequences);
  for (std::size_t s = 0; s < samples.size(); ++s) lengths[s] = samples[s].length;
  batch.lengths = lengths;
}

void BatchLoader::fill_one_token_each(Slot& slot, core::MicroBatch& batch) const {
  auto* offsets = take<std::int32_t>(slot, batch.sequences + 1);
  auto* sequence = take<std::int32_t>(slot, batch.sequences);
  auto* position = take<std::int32_t>(slot, batch.sequences);
  for (std::int32_t s = 0; s < static_cast<std::int32_t>(batch.sequences); ++s) {
    offsets[s] = sequence[s] = s;
    const std::int32_t rows = batch.tokens.offsets[s + 1] - batch.tokens.offsets[s];
    position[s] = options_.last_tokens ? (batch.lengths != nullptr ? batch.lengths[s] : rows) - 1 : 0;
  }
  offsets[batch.sequences] = static_cast<std::int32_t>(batch.sequences);
  batch.targets.rows = {batch.sequences, offsets, sequence, position};
  auto* index = take<std::int32_t>(slot, batch.sequences);
  std::transform(position, position + batch.sequences, batch.tokens.offsets, index, std::plus<>());
  batch.targets.index = index;
}

void BatchLoader::fill_all_tokens(Slot& slot, core::MicroBatch& batch) const {
  auto* index = take<std::int32_t>(slot, batch.tokens.count);
  std::iota(index, index + batch.tokens.count, 0);
  batch.targets.rows = batch.tokens;
  batch.targets.index = index;
}

void BatchLoader::fill_labels(Slot& slot, core::MicroBatch& batch) const {
  const auto labels_of = [&]<class From, class T>(std::span<const From> labels, std::int64_t columns, const T*& target,
                                                  auto convert) {
    if (labels.empty()) return;
    auto* taken = take<T>(slot, batch.sequences * columns);
    for (std::int64_t s = 0; s < batch.sequences; ++s) {
      const auto row = labels.subspan(static_cast<std::size_t>(batch.sample[s] * columns));
      for (std::int64_t c = 0; c < columns; ++c) taken[s * columns + c] = convert(row[static_cast<std::size_t>(c)], c);
    }
    target = taken;
  };
  auto& values = batch.targets.get<core::ValueTargets>();
  const LabelScales& scales = options_.label_scales;
  values.columns = reader_.sets().empty() ? reader_.value_columns() : std::ssize(reader_.info().label_names);
  values.bounded = is_bounded(scales);
  for (std::int64_t s = 0; values.columns > 1 && !reader_.values().empty() && s < batch.sequences; ++s) {
    values.known += known_values(batch.sample[s]);
  }
  labels_of(reader_.spans(), 2, batch.targets.get<core::SpanTargets>().data,
            [](std::int32_t position, std::int64_t) { return position; });
  labels_of(reader_.levels(), 1, values.data, [](std::int32_t level, std::int64_t) { return level > 0 ? 1.0f : 0.0f; });
  auto& classes = batch.targets.get<core::ClassTargets>();
  classes.of_sequences = !reader_.classes().empty();
  labels_of(reader_.classes(), 1, classes.data, [](std::int32_t label, std::int64_t) { return label; });
  labels_of(reader_.values(), values.columns, values.data, [&scales](float label, std::int64_t column) {
    return scales.empty() ? label : scales[static_cast<std::size_t>(column)].standardized(label);
  });
  labels_of(reader_.sets(), values.columns, values.data,
            [](std::uint8_t element, std::int64_t) { return static_cast<float>(element); });
}

/// Known numbers of a sample with several label columns.
std::int64_t BatchLoader::known_values(std::int64_t sample) const {
  const auto columns = static_cast<std::size_t>(reader_.value_columns());
  const std::span<const float> own = reader_.values().subspan(static_cast<std::size_t>(sample) * columns, columns);
  return std::count_if(own.begin(), own.end(), [](float value) { return !std::isnan(value); });
}

/// Rows that the head reads of a sample's words.
std::int64_t BatchLoader::word_rows(std::int64_t sample) const {
  const Words& words = reader_.words();
  if (!options_.all_pieces) return words.count(sample);
  std::int64_t rows = 0;
  const auto s = static_cast<std::size_t>(sample);
  for (std::int64_t w = words.offsets[s]; w < words.offsets[s + 1]; ++w) {
    const std::int32_t* const tokens = words.tokens.data() + 2 * w;
    rows += std::max(tokens[1] - tokens[0], 1);
  }
  return rows;
}

/// What the loss of a global batch is a mean of; −1 if one replica cannot know.
std::int64_t BatchLoader::targets_of(const core::BatchPlan& plan) const {
  if (masker_) return -1;
  if (units_) return std::ssize(samples_);
  std::int64_t targets = 0;
  if (options_.task->predicts_next_tokens()) {
    for (const core::PlannedSample& sample : plan.samples) targets += sample.length - 1;
    return targets;
  }
  if (reader_.value_columns() > 1 && !reader_.values().empty()) {
    for (const std::int64_t sample : samples_) targets += known_values(sample);
    return targets;
  }
  if (options_.task->rows != tasks::LogitPositions::words) return plan.sequences();
  for (const std::int64_t sample : samples_) targets += word_rows(sample);
  return targets;
}

void BatchLoader::fill_words(Slot& slot, core::MicroBatch& batch) const {
  std::int64_t rows = 0;
  for (std::int64_t s = 0; s < batch.sequences; ++s) rows += word_rows(batch.sample[s]);
  auto* offsets = take<std::int32_t>(slot, batch.sequences + 1);
  auto* sequence = take<std::int32_t>(slot, rows);
  auto* position = take<std::int32_t>(slot, rows);
  auto* index = take<std::int32_t>(slot, rows);
  const Words& words = reader_.words();
  const std::span<const std::int32_t> known = reader_.word_classes();
  auto* classes = known.empty() ? nullptr : take<std::int32_t>(slot, rows);
  std::int32_t row = 0;
  for (std::int32_t s = 0; s < static_cast<std::int32_t>(batch.sequences); ++s) {
    offsets[s] = row;
    const auto sample = static_cast<std::size_t>(batch.sample[s]);
    for (std::int64_t w = words.offsets[sample]; w < words.offsets[sample + 1]; ++w) {
      const std::int32_t* const tokens = words.tokens.data() + 2 * w;
      const std::int32_t first = tokens[0] + 1, end = options_.all_pieces ? std::max(tokens[1], first) : first;
      for (std::int32_t token = tokens[0]; token < end; ++token, ++row) {
        sequence[row] = s;
        position[row] = token;
        index[row] = batch.tokens.offsets[s] + token;
        if (classes == nullptr) continue;
        const std::int32_t label = known[static_cast<std::size_t>(w)];
        classes[row] = token == tokens[0] ? label : class_inside_[static_cast<std::size_t>(label)];
      }
    }
  }
  offsets[batch.sequences] = row;
  batch.targets = {.rows = {rows, offsets, sequence, position}, .index = index};
  batch.targets.get<core::ClassTargets>().data = classes;
}

void BatchLoader::fill_lists(std::span<const core::PlannedSample> samples, Slot& slot, core::MicroBatch& batch) const {
  auto* lists = take<std::int32_t>(slot, 2 * batch.sequences);
  std::int64_t count = 0;
  units_->visit_units(samples, [&](std::int32_t begin, std::int32_t end) {
    lists[2 * count] = begin;
    lists[2 * count + 1] = end;
    ++count;
  });
  batch.targets.get<core::ListTargets>() = {lists, count};
}

/// Without lists, as in evaluations, whose micro-batches divide rows of texts, there are no targets.
void BatchLoader::fill_texts(std::span<const core::PlannedSample> samples, Slot& slot, core::MicroBatch& batch) const {
  if (!units_) return;
  fill_lists(samples, slot, batch);
  const auto& lists = batch.targets.get<core::ListTargets>();
  auto* texts = take<float>(slot, core::TextTargets::columns * batch.sequences);
  const LabelScale scale = options_.label_scales.empty() ? LabelScale() : options_.label_scales.front();
  for (std::int64_t l = 0; l < lists.count; ++l) {
    for (std::int32_t s = lists.data[2 * l]; s < lists.data[2 * l + 1]; ++s) {
      const auto sample = static_cast<std::size_t>(batch.sample[s]);
      float* const text = texts + core::TextTargets::columns * s;
      const std::span ids(batch.input_ids + batch.tokens.offsets[s],
                          static_cast<std::size_t>(samples[static_cast<std::size_t>(s)].length));
      const std::uint64_t hash = core::mix64(core::hash_of_ids(ids));
      text[0] = static_cast<float>(s - lists.data[2 * l]);
      text[1] = reader_.values().empty() ? 0.0f : scale.standardized(reader_.values()[sample]);
      text[2] = static_cast<float>(hash & 0xFFFFFF);
      text[3] = static_cast<float>(hash >> 24 & 0xFFFFFF);
    }
  }
  batch.targets.get<core::TextTargets>().data = texts;
}

}  // namespace bert_hpc::data
