// The loader's thread, and the bounds from which its memory is taken.
#include "bert_hpc/data/batch_loader.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/shard_tokenizer.hpp"

namespace bert_hpc::data {
namespace {

using core::Error;
using core::ExitCode;

/// Arrays of a micro-batch: no more than this many, each with up to one entry more and padded to the alignment.
constexpr std::size_t max_arrays = 40;

/// Seed of the masks of evaluations: equal for every run, so that runs of several seeds are compared on the same masks.
constexpr std::uint64_t evaluation_seed = 0;

/// The most tokens that `sequences` different samples can have.
std::int64_t tokens_of_longest(std::span<const std::int32_t> lengths, std::int64_t sequences, std::int64_t max_length) {
  std::vector<std::int64_t> count(static_cast<std::size_t>(max_length) + 1, 0);
  for (const std::int32_t length : lengths) ++count[static_cast<std::size_t>(length)];
  std::int64_t tokens = 0;
  for (std::int64_t length = max_length; length > 0 && sequences > 0; --length) {
    const std::int64_t taken = std::min(sequences, count[static_cast<std::size_t>(length)]);
    tokens += taken * length;
    sequences -= taken;
  }
  return tokens;
}

std::int64_t tokens_of_largest(std::span<const std::int32_t> units, std::int64_t count) {
  std::vector<std::int32_t> tokens(units.begin(), units.end());
  std::sort(tokens.begin(), tokens.end(), std::greater<>());
  tokens.resize(static_cast<std::size_t>(std::min<std::int64_t>(count, std::ssize(tokens))));
  return std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
}

BatchSamplerOptions sampler_options(const BatchLoaderOptions& o) {
  return {.sampler = o.sampler, .global_batch = o.plan.global_batch, .drop_last = o.drop_last, .warmup = o.warmup};
}

std::unique_ptr<SampleUnits> units_of(const ShardReader& reader, const BatchLoaderOptions& o) {
  if (!o.lists) return nullptr;
  return std::make_unique<SampleUnits>(reader.groups(), reader.levels(), reader.table().lengths());
}

/// Bounds of a plan, made tighter by what the data's lengths allow. `units`: what is drawn; null: samples.
BatchPlanBounds checked_bounds(const ShardReader& reader, const BatchLoaderOptions& o, const SampleUnits* units) {
  const std::int64_t count = units != nullptr ? units->count() : reader.samples();
  if (count < o.plan.replicas) {
    const std::string what = units == nullptr          ? "samples"
                             : o.task->has_text_rows() ? "rows of texts"
                                                       : "queries with a relevant candidate";
    throw Error(ExitCode::data, "There are fewer " + what + " (" + std::to_string(count) + ", first file " +
                                    reader.files().front() + ") than data-parallel replicas (" +
                                    std::to_string(o.plan.replicas) + "); use fewer ranks or more data.");
  }
  const std::int64_t longest = most_rows(o.plan.padding, reader.info().max_length, units);
  check(o.plan, longest);
  BatchPlanBounds b = bounds(o.plan, longest);
  const std::int64_t most =
      o.plan.padding.pads() ? std::min(o.plan.global_batch, count) * longest
      : units != nullptr    ? tokens_of_largest(units->tokens(), o.plan.global_batch)
                         : tokens_of_longest(reader.table().lengths(), o.plan.global_batch, reader.info().max_length);
  if (units != nullptr) {  // from units to sequences
    b.replica_sequences = std::min(o.plan.global_batch, b.replica_sequences) * units->most_samples();
    b.micro_sequences = std::min(o.plan.global_batch, b.micro_sequences) * units->most_samples();
  }
  b.replica_tokens = std::min(b.replica_tokens, most);
  b.micro_tokens = std::min(b.micro_tokens, most);
  b.replica_sequences = std::min(b.replica_sequences, reader.samples());
  b.micro_sequences = std::min(b.micro_sequences, reader.samples());
  return b;
}

std::vector<bool> continued_in(const std::string& shard) {
  const std::string tokenizer = tokenizer_text(shard);
  if (!tokenizer.empty()) return tokenize::continued_tokens(tokenizer, shard);
  throw Error(ExitCode::data, shard +
                                  ": task.mask_whole_words needs the tokenizer that shards of bert_hpc_prep hold, " +
                                  "which this one does not: prepare the text with bert_hpc_prep, or remove the key.");
}

}  // namespace

BatchLoaderOptions evaluation_options(const BatchLoaderOptions& training, std::int64_t micro_tokens,
                                      std::int64_t window) {
  BatchLoaderOptions o = training;
  o.plan = {.global_batch = window * training.plan.replicas,
            .hidden = training.plan.hidden,
            .replicas = training.plan.replicas,
            .micro_tokens = micro_tokens,
            .padding = training.plan.padding};
  o.warmup = {};
  o.sampler.order = Order::file;
  o.sampler.seed = evaluation_seed;
  o.mask_probability = training.evaluation_mask_probability.value_or(training.mask_probability);
  o.drop_last = false;
  o.lists = false;  // rank 0 has all scores of a query
  o.epochs = 1;
  o.all_pieces = false;  // a word counts once
  o.steps = o.first_step = 0;
  return o;
}

BatchLoader::BatchLoader(ShardReader& reader, const BatchLoaderOptions& options)
    : reader_(reader),
      options_(options),
      units_(units_of(reader, options)),
      sampler_(units_ ? units_->tokens() : reader.table().lengths(), sampler_options(options)),
      planner_(options.plan, units_.get()),
      bounds_(checked_bounds(reader, options, units_.get())),
      id_sorter_(bounds_.micro_tokens, reader.info().vocabulary_size),
      total_steps_(options.steps > 0 ? data::total_steps(options.steps, 0, 1)
                                     : sampler_.schedule().steps_of(options.epochs)) {
  core::require(options.replica >= 0 && options.replica < options.plan.replicas, "the replica is one of the layout");
  if (options.task->masks_tokens()) {
    masker_ = std::make_unique<Masker>(
        MaskingOptions{
            .probability = options.mask_probability,
            .seed = options.sampler.seed,
            .vocabulary_size = reader.info().vocabulary_size,
            .special_ids = reader.special_ids(),
            .continues_word = options.mask_whole_words ? continued_in(reader.files().front()) : std::vector<bool>{}},
        reader.info().max_length);
  }
  class_inside_ = classes_inside(reader.info().label_names);
  pad_id_ = std::max(reader.special_ids().pad, 0);
  max_targets_ = most_targets(bounds_.micro_tokens, bounds_.micro_sequences);
  slot_bytes_ = bytes_needed();
  const auto most = static_cast<std::size_t>(std::min(options.plan.global_batch, units()));
  const auto all = static_cast<std::size_t>(reader.samples());
  if (units_) units_->reserve(static_cast<std::int64_t>(most));
  samples_.reserve(most);
  lengths_.reserve(most);
  for (Slot& slot : slots_) {
    if (core::host_sees_device_memory()) {
      // Not initialised: pages that no step reaches are never touched.
      slot.own = std::make_unique_for_overwrite<std::byte[]>(slot_bytes_);
      slot.memory = slot.own.get();
    } else {
      slot.pinned = core::Buffer<std::byte>(static_cast<std::int64_t>(slot_bytes_), core::MemoryKind::host);
      slot.device = core::Buffer<std::byte>(static_cast<std::int64_t>(slot_bytes_));
      slot.memory = slot.pinned.data();
    }
    slot.step.micro_batches.reserve(static_cast<std::size_t>(bounds_.replica_micro_batches));
    planner_.reserve(units(), most_rows(options.plan.padding, reader.info().max_length, units_.get()), slot.step.plan);
    if (units_) slot.step.plan.samples.reserve(std::min(most * static_cast<std::size_t>(units_->most_samples()), all));
  }
  restart(options.first_step);
}

BatchLoader::~BatchLoader() {
  stop();
}

void BatchLoader::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BatchLoader::restart(std::int64_t step) {
  stop();
  for (const Slot& slot : slots_) slot.copied.wait();
  next_step_ = prepared_ = step;
  free_ = step + 2;
  stopping_ = false;
  error_ = nullptr;
  if (step < total_steps_) thread_ = std::thread([this] { run(); });
}

void BatchLoader::run() {
  for (std::int64_t step = prepared_; step < total_steps_; ++step) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || step < free_; });
      if (stopping_) return;
    }
    std::exception_ptr error;
    try {
      prepare(step, slots_[step % 2]);
    } catch (...) {
      error = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      error_ = error;
      if (!error) prepared_ = step + 1;
    }
    changed_.notify_all();
    if (error) return;
  }
}

const LoadedStep& BatchLoader::next() {
  core::require(has_next(), "the loader's last step was delivered");
  slots_[(next_step_ + 1) % 2].copied.wait();  // not all that call this wait for what the step before computed
  {
    std::unique_lock lock(mutex_);
    // The step delivered before this one is done with: its slot may take the step after this one.
    free_ = next_step_ + 2;
    changed_.notify_all();
    changed_.wait(lock, [&] { return prepared_ > next_step_ || error_; });
    if (prepared_ <= next_step_) std::rethrow_exception(error_);
  }
  Slot& slot = slots_[next_step_++ % 2];
  upload(slot);
  return slot.step;
}

std::int64_t BatchLoader::memory_bytes() const {
  return 2 * static_cast<std::int64_t>(slot_bytes_);
}

/// What prepare takes for the fullest step. Counts of arrays are those of fill and of what it calls.
std::size_t BatchLoader::bytes_needed() const {
  const auto tokens = static_cast<std::size_t>(bounds_.replica_tokens);
  const auto sequences = static_cast<std::size_t>(bounds_.replica_sequences);
  const auto micro_batches = static_cast<std::size_t>(bounds_.replica_micro_batches);
  const auto targets = static_cast<std::size_t>(most_targets(bounds_.replica_tokens, bounds_.replica_sequences));
  const bool of_words = options_.task->rows == tasks::LogitPositions::words;  // a class for each target
  const std::size_t label_columns = of_words ? 0 : reader_.spans().empty() ? reader_.info().label_names.size() : 2;
  const std::size_t texts = options_.task->has_text_rows() ? core::TextTargets::columns : 0;
  const std::size_t label_elements = sequences * (label_columns + texts);
  const std::size_t lists = units_ ? 2 * sequences : 0;
  // The arrays of masked tokens and of first tokens, beside those of all rows.
  const std::size_t parts = options_.task->labels_pairs ? targets * 5 + sequences * 6 : 0;
  const std::size_t lengths = options_.plan.padding.pads() ? sequences : 0;
  const auto steps = static_cast<std::size_t>(max_length());
  return tokens * 7 * 4 + sequences * (4 * 4 + 8) + micro_batches * steps * 4 + (lists + lengths) * 4 +
         targets * 4 * 4 + parts * 4 + label_elements * 4 + micro_batches * max_arrays * (array_alignment + 8);
}

/// A bound on the rows that the head reads of so many tokens and sequences.
std::int64_t BatchLoader::most_targets(std::int64_t tokens, std::int64_t sequences) const {
  if (masker_) return max_masked(tokens, sequences) + (options_.task->labels_pairs ? sequences : 0);
  return options_.task->rows == tasks::LogitPositions::first_tokens ? sequences : tokens;
}

/// A bound on the masked tokens of a micro-batch: the lesser of what so many tokens of the data set (those sequences
/// first that mask the largest share) and so many sequences of it (the longest first) could have masked.
std::int64_t BatchLoader::max_masked(std::int64_t tokens, std::int64_t sequences) const {
  const std::int64_t longest = reader_.info().max_length;
  std::vector<std::int64_t> available(static_cast<std::size_t>(longest) + 1, 0);
  for (const std::int32_t length : reader_.table().lengths()) ++available[static_cast<std::size_t>(length)];
  const auto at = [&](std::int64_t length) { return available[static_cast<std::size_t>(length)]; };

  std::int64_t of_sequences = 0;
  for (std::int64_t length = longest, left = sequences; length > 0; --length) {
    const std::int64_t taken = std::min(at(length), left);
    of_sequences += taken * masker_->most(length);
    left -= taken;
  }
  std::vector<std::int64_t> by_share(static_cast<std::size_t>(longest));
  std::iota(by_share.begin(), by_share.end(), 1);
  const auto share = [&](std::int64_t length) {
    return static_cast<double>(masker_->most(length)) / static_cast<double>(length);
  };
  std::stable_sort(by_share.begin(), by_share.end(), [&](auto a, auto b) { return share(a) > share(b); });
  std::int64_t of_tokens = 0, left = tokens;
  for (const std::int64_t length : by_share) {
    // A sequence that fits only in part counts whole: a bound, not a packing.
    const std::int64_t taken = std::min(at(length), (left + length - 1) / length);
    of_tokens += taken * masker_->most(length);
    left = std::max<std::int64_t>(left - taken * length, 0);
  }
  return std::min({of_sequences, of_tokens, tokens});
}

}  // namespace bert_hpc::data
