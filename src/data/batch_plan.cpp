// What is wrong with the settings of a batch, what no plan of them exceeds, and the cut. Integers only, so that every
// rank and compiler computes the same plan.
#include "bert_hpc/data/batch_plan.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <tuple>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::data {
namespace {

using std::to_string;

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Most tokens in one of `parts` parts of `sequences` sequences no longer than `longest`; always attainable, because
/// parts filled to it in turn hold at least sequences / parts sequences each.
std::int64_t token_limit(std::int64_t sequences, std::int64_t parts, std::int64_t longest) {
  return std::max(ceil_divide(sequences, parts), std::int64_t{1}) * longest;
}

/// Most tokens in one of `parts` parts of `tokens` tokens: parts filled in turn end at most one sequence below it.
std::int64_t even_limit(std::int64_t tokens, std::int64_t parts, std::int64_t longest) {
  return parts == 1 ? tokens : std::min(tokens, ceil_divide(tokens, parts) + longest);
}

void check_chunks(const BatchPlanOptions& o, std::int64_t max_length, core::ProblemList& problems) {
  if (o.chunks < o.replicas) {
    problems.add("batch.chunks = " + to_string(o.chunks) + " is less than the " + to_string(o.replicas) +
                 " replicas of the layout; set it to at least " + to_string(o.replicas) + ".");
  } else if (o.reproducible && !(std::has_single_bit(static_cast<unsigned>(o.replicas)) &&
                                 std::has_single_bit(static_cast<unsigned>(o.chunks)))) {
    problems.add("run.reproducible needs powers of two, not batch.chunks = " + to_string(o.chunks) + " and " +
                 to_string(o.replicas) + " replicas.");
  }
  const std::int64_t nominal = ceil_divide(o.global_batch, o.chunks);
  const std::int64_t tokens = token_limit(o.global_batch, o.chunks, max_length);
  if (o.micro_tokens > 0 && o.micro_tokens < tokens) {
    problems.add("batch.micro_tokens = " + to_string(o.micro_tokens) + " is less than a chunk may hold (" +
                 to_string(nominal) + " sequences of up to " + to_string(max_length) + " tokens); raise it to " +
                 to_string(tokens) + ", or raise batch.chunks above " + to_string(o.chunks) + ".");
  }
  if (o.micro_sequences > 0 && o.micro_sequences < nominal) {
    problems.add("batch.micro = " + to_string(o.micro_sequences) + " is less than a chunk (" + to_string(nominal) +
                 " sequences); raise it, or raise batch.chunks above " + to_string(o.chunks) + ".");
  }
  if (o.micro_batches > 0 && o.micro_batches > o.chunks / std::max(o.replicas, 1)) {
    problems.add("batch.micro_batches = " + to_string(o.micro_batches) + " is more than the chunks of a replica (" +
                 to_string(o.chunks / std::max(o.replicas, 1)) + "); lower it, or raise batch.chunks.");
  }
}

/// Appends the ends of `parts` runs of [begin, end) whose sizes differ by at most 1.
void cut_evenly(std::int32_t begin, std::int32_t end, std::int64_t parts, std::vector<std::int32_t>& boundaries) {
  for (std::int64_t p = 1; p <= parts; ++p) {
    boundaries.push_back(begin + static_cast<std::int32_t>((end - begin) * p / parts));
  }
}

}  // namespace

void check(const BatchPlanOptions& o, std::int64_t max_length) {
  core::require(o.replicas >= 1 && o.hidden >= 1 && max_length >= 1, "batch plan: layout and lengths are positive");
  core::ProblemList problems;
  if (o.global_batch < 1 || o.global_batch > (std::int64_t{1} << 30)) {
    problems.add("batch.global = " + to_string(o.global_batch) + " must lie between 1 and 2^30 sequences.");
  }
  if (o.global_batch < o.replicas) {
    problems.add("batch.global = " + to_string(o.global_batch) + " is less than the " + to_string(o.replicas) +
                 " replicas of the layout; every replica needs a sequence.");
  }
  if (o.micro_tokens < 0 || o.micro_sequences < 0 || o.micro_batches < 0 || o.chunks < 0) {
    problems.add("batch.micro_tokens, batch.micro, batch.micro_batches and batch.chunks must not be negative.");
  }
  if ((o.micro_tokens > 0) + (o.micro_sequences > 0) + (o.micro_batches > 0) > 1) {
    problems.add("At most one of batch.micro_tokens, batch.micro and batch.micro_batches may be given.");
  }
  if (o.reproducible && o.chunks == 0) problems.add("run.reproducible needs batch.chunks of at least 1.");
  problems.throw_if_any(core::ExitCode::input, "The batch cannot be cut:");

  if (o.chunks > 0) {
    check_chunks(o, max_length, problems);
  } else if (o.micro_tokens > 0 && o.micro_tokens < max_length) {
    problems.add("batch.micro_tokens = " + to_string(o.micro_tokens) +
                 " is less than the longest sequence of the data" + (o.padding.pads() ? " with its padding (" : " (") +
                 to_string(max_length) +
                 " tokens); set it to at least that. With task.loss = \"listwise\" all candidates of a query count as "
                 "one sequence.");
  }
  problems.throw_if_any(core::ExitCode::input, "The batch cannot be cut:");
}

BatchPlanBounds bounds(const BatchPlanOptions& o, std::int64_t max_length) {
  BatchPlanBounds b;
  if (o.chunks > 0) {
    const std::int64_t held = ceil_divide(o.chunks, o.replicas);
    const std::int64_t chunk = token_limit(o.global_batch, o.chunks, max_length);
    b.replica_tokens = held * chunk;
    std::int64_t joined = held;  // chunks in a micro-batch
    if (o.reproducible) {
      joined = 1;
    } else if (o.micro_sequences > 0) {
      joined = o.micro_sequences / ceil_divide(o.global_batch, o.chunks);
    } else if (o.micro_batches > 0) {
      joined = ceil_divide(held, o.micro_batches);
    }
    b.micro_tokens = std::min(joined, held) * chunk;
    if (o.micro_tokens > 0 && !o.reproducible) b.micro_tokens = std::min(b.micro_tokens, o.micro_tokens);
    b.replica_micro_batches = held;
  } else {
    b.replica_tokens = token_limit(o.global_batch, o.replicas, max_length);
    const std::int64_t parts = std::max(o.micro_batches, std::int64_t{1});
    b.micro_tokens = o.padding.pads() ? token_limit(ceil_divide(o.global_batch, o.replicas), parts, max_length)
                                      : even_limit(b.replica_tokens, parts, max_length);
    b.replica_micro_batches = parts;
    if (o.micro_tokens > 0) {
      b.micro_tokens = std::min(b.replica_tokens, o.micro_tokens);
      // Two neighbouring micro-batches hold more than micro_tokens together, else they would have been one. With
      // padding a full micro-batch holds at least as many sequences as if all were of the greatest length.
      b.replica_micro_batches = o.padding.pads()
                                    ? ceil_divide(ceil_divide(o.global_batch, o.replicas), o.micro_tokens / max_length)
                                    : 2 * (b.replica_tokens / o.micro_tokens) + 1;
    } else if (o.micro_sequences > 0) {
      b.micro_tokens = std::min(b.replica_tokens, o.micro_sequences * max_length);
      b.replica_micro_batches = ceil_divide(o.global_batch, o.micro_sequences);
    }
  }
  b.replica_tokens = std::min(b.replica_tokens, o.global_batch * max_length);
  b.micro_tokens = std::min(b.micro_tokens, b.replica_tokens);
  const std::int64_t least = o.padding.rows(1);  // computed tokens of a sequence
  b.replica_sequences = std::min(o.global_batch, b.replica_tokens / least);
  b.micro_sequences = std::min(o.global_batch, b.micro_tokens / least);
  if (o.chunks == 0 && o.micro_sequences > 0) b.micro_sequences = std::min(b.micro_sequences, o.micro_sequences);
  return b;
}

void BatchPlanner::reserve(std::int64_t most_samples, std::int64_t max_length, core::BatchPlan& plan) {
  const auto samples = static_cast<std::size_t>(std::min(most_samples, options_.global_batch));
  const auto replicas = static_cast<std::size_t>(options_.replicas);
  const auto parts =
      replicas * static_cast<std::size_t>(bounds(options_, max_length).replica_micro_batches) + replicas + 1;
  const auto chunks = parts + static_cast<std::size_t>(options_.chunks);
  plan.samples.reserve(samples);
  by_part_.reserve(samples);
  part_of_.reserve(samples);
  parts_.reserve(chunks);
  begins_.reserve(chunks + 1);
  replicas_.reserve(replicas + 1);
  plan.chunk_begin.reserve(chunks);
  plan.micro_begin.reserve(parts);
  plan.replica_begin.reserve(replicas + 1);
}

void BatchPlanner::plan(std::span<const std::int64_t> samples, std::span<const std::int32_t> lengths,
                        core::BatchPlan& plan) {
  core::require(samples.size() == lengths.size() && static_cast<std::int64_t>(samples.size()) <= options_.global_batch,
                "batch plan: one length a sample, at most batch.global samples");
  plan.samples.resize(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) plan.samples[i] = {samples[i], lengths[i]};
  if (!options_.padding.pads() || options_.padding.sorts) {
    std::sort(plan.samples.begin(), plan.samples.end(),
              [](const auto& a, const auto& b) { return std::tie(a.length, a.index) < std::tie(b.length, b.index); });
    longest_ = plan.samples.empty() ? 1 : plan.samples.back().length;
  }
  plan.chunk_begin.assign(1, 0);
  plan.micro_begin.assign(1, 0);
  plan.replica_begin.assign(1, 0);
  if (options_.chunks > 0) {
    plan_chunks(plan);
  } else if (options_.padding.pads()) {
    plan_padded_layout(plan);
  } else {
    plan_layout(plan);
  }
}

std::int64_t BatchPlanner::rows_of(const core::BatchPlan& plan, std::int32_t begin, std::int32_t end) const {
  std::int64_t tokens = 0, sequences = 0, longest = 0;
  for (std::int32_t i = begin; i < end; ++i) {
    const core::PlannedSample& sample = plan.samples[static_cast<std::size_t>(i)];
    tokens += sample.length;
    if (!options_.padding.pads()) continue;
    sequences += sequences_of(sample);
    longest = std::max(longest, longest_of(sample));
  }
  return options_.padding.pads() ? sequences * options_.padding.rows(longest) : tokens;
}

void BatchPlanner::cut_by_rows(const core::BatchPlan& plan, std::int32_t begin, std::int32_t end,
                               std::vector<std::int32_t>& boundaries) const {
  std::int64_t sequences = 0, longest = 0;
  for (std::int32_t i = begin; i < end; ++i) {
    const core::PlannedSample& sample = plan.samples[static_cast<std::size_t>(i)];
    const std::int64_t more = sequences_of(sample), length = longest_of(sample);
    core::require(more * options_.padding.rows(length) <= options_.micro_tokens,
                  "batch plan: a sequence is longer than batch.micro_tokens");
    sequences += more;
    longest = std::max(longest, length);
    if (sequences * options_.padding.rows(longest) <= options_.micro_tokens) continue;
    boundaries.push_back(i);
    sequences = more;
    longest = length;
  }
  boundaries.push_back(end);
}

/// Chunks first, from the batch alone; replicas and micro-batches are whole chunks.
void BatchPlanner::plan_chunks(core::BatchPlan& plan) {
  const BatchPlanOptions& o = options_;
  const auto all = static_cast<std::int32_t>(plan.sequences());
  if (o.padding.pads()) {
    cut_evenly(0, all, o.chunks, plan.chunk_begin);
  } else {
    const bool fits =
        share_out(plan, 0, all, o.chunks, {.tokens = token_limit(all, o.chunks, longest_)}, plan.chunk_begin);
    core::require(fits, "batch plan: the chunks cannot hold the batch");
  }
  const auto tokens_of = [&](int first, int last) {
    return rows_of(plan, plan.chunk_begin[static_cast<std::size_t>(first)],
                   plan.chunk_begin[static_cast<std::size_t>(last)]);
  };
  const std::int64_t joined = std::max(o.micro_sequences / ceil_divide(o.global_batch, o.chunks), std::int64_t{1});
  for (std::int64_t r = 0; r < o.replicas; ++r) {
    const int begin = static_cast<int>(r * o.chunks / o.replicas);
    const int end = static_cast<int>((r + 1) * o.chunks / o.replicas);
    for (int c = begin + 1; c <= end; ++c) {
      const int open = plan.micro_begin.back();  // first chunk of the micro-batch that grows
      bool closes = c == end || o.reproducible;
      if (o.micro_tokens > 0) {
        closes = closes || tokens_of(open, c + 1) > o.micro_tokens;
      } else if (o.micro_sequences > 0) {
        closes = closes || c - open == joined;
      } else if (o.micro_batches > 0) {
        // Micro-batch m of the replica ends at chunk begin + (m + 1)·held / micro_batches.
        const std::int64_t m = static_cast<std::int64_t>(plan.micro_begin.size()) - 1 - plan.replica_begin.back();
        closes = closes || c - begin == (m + 1) * (end - begin) / o.micro_batches;
      }
      if (closes) plan.micro_begin.push_back(c);
    }
    plan.replica_begin.push_back(static_cast<std::int32_t>(plan.micro_begin.size()) - 1);
  }
}

/// Replicas first, then each replica's micro-batches; a chunk each.
void BatchPlanner::plan_padded_layout(core::BatchPlan& plan) {
  const BatchPlanOptions& o = options_;
  replicas_.assign(1, 0);
  cut_evenly(0, static_cast<std::int32_t>(plan.sequences()), o.replicas, replicas_);
  for (std::size_t r = 0; r < static_cast<std::size_t>(o.replicas); ++r) {
    const std::int32_t begin = replicas_[r], end = replicas_[r + 1];
    if (o.micro_tokens > 0) {
      cut_by_rows(plan, begin, end, plan.chunk_begin);
    } else {
      const std::int64_t parts = o.micro_sequences > 0 ? ceil_divide(end - begin, o.micro_sequences) : o.micro_batches;
      cut_evenly(begin, end, std::max(parts, std::int64_t{1}), plan.chunk_begin);
    }
    for (int c = plan.micro_begin.back() + 1; c <= plan.chunks(); ++c) plan.micro_begin.push_back(c);
    plan.replica_begin.push_back(static_cast<std::int32_t>(plan.micro_begin.size()) - 1);
  }
}

/// Replicas first; then each into as few micro-batches as its limit allows; a chunk each.
void BatchPlanner::plan_layout(core::BatchPlan& plan) {
  const BatchPlanOptions& o = options_;
  const auto all = static_cast<std::int32_t>(plan.sequences());
  replicas_.assign(1, 0);
  bool fits = share_out(plan, 0, all, o.replicas, {.tokens = token_limit(all, o.replicas, longest_)}, replicas_);
  core::require(fits, "batch plan: the replicas cannot hold the batch");
  for (std::size_t r = 0; r < static_cast<std::size_t>(o.replicas); ++r) {
    const std::int32_t begin = replicas_[r], end = replicas_[r + 1];
    std::int64_t tokens = 0;
    for (std::int32_t i = begin; i < end; ++i) tokens += plan.samples[static_cast<std::size_t>(i)].length;
    std::int64_t parts = std::max(o.micro_batches, std::int64_t{1});
    PartLimit limit{.tokens = even_limit(tokens, parts, longest_)};
    if (o.micro_tokens > 0) {
      core::require(longest_ <= o.micro_tokens, "batch plan: a sequence is longer than batch.micro_tokens");
      limit = {.tokens = o.micro_tokens};
      parts = ceil_divide(tokens, o.micro_tokens);
    } else if (o.micro_sequences > 0) {
      limit = {.sequences = o.micro_sequences};
      parts = ceil_divide(end - begin, o.micro_sequences);
    }
    parts = std::max(parts, std::int64_t{1});
    // Sequences that go into k parts by their sum need not go into them one by one. Longest first, one that finds no
    // room among k parts leaves them more than half full on average with it: no more than 2·tokens / limit parts.
    while (!share_out(plan, begin, end, parts, limit, plan.chunk_begin)) ++parts;
    for (std::int64_t m = 0; m < parts; ++m) plan.micro_begin.push_back(plan.micro_begin.back() + 1);
    plan.replica_begin.push_back(static_cast<std::int32_t>(plan.micro_begin.size()) - 1);
  }
}

bool BatchPlanner::share_out(core::BatchPlan& plan, std::int32_t begin, std::int32_t end, std::int64_t parts,
                             const PartLimit& limit, std::vector<std::int32_t>& boundaries) {
  const std::span<core::PlannedSample> samples(plan.samples.data() + begin, static_cast<std::size_t>(end - begin));
  const auto less_urgent = [](const Part& a, const Part& b) {
    return std::tie(a.work, a.number) > std::tie(b.work, b.number);
  };
  const auto fits = [&](const Part& part, std::int64_t length) {
    return part.tokens + length <= limit.tokens && part.sequences < limit.sequences;
  };
  parts_.clear();  // a heap: the part with the least work in front
  for (std::int64_t p = 0; p < parts; ++p) parts_.push_back({.number = static_cast<std::int32_t>(p)});
  part_of_.resize(samples.size());
  begins_.assign(static_cast<std::size_t>(parts) + 1, 0);
  for (std::size_t i = samples.size(); i-- > 0;) {
    const std::int64_t length = samples[i].length;
    const auto add_to = [&](Part& part) {
      part.work += length * (6 * options_.hidden + length);
      part.tokens += length;
      ++part.sequences;
      part_of_[i] = part.number;
      ++begins_[static_cast<std::size_t>(part.number) + 1];
    };
    if (fits(parts_.front(), length)) {
      std::pop_heap(parts_.begin(), parts_.end(), less_urgent);
      add_to(parts_.back());
      std::push_heap(parts_.begin(), parts_.end(), less_urgent);
    } else {
      auto best = parts_.end();
      for (auto part = parts_.begin(); part != parts_.end(); ++part) {
        if (fits(*part, length) && (best == parts_.end() || less_urgent(*best, *part))) best = part;
      }
      if (best == parts_.end()) return false;
      add_to(*best);
      std::make_heap(parts_.begin(), parts_.end(), less_urgent);
    }
  }

  for (std::size_t p = 1; p < begins_.size(); ++p) {
    begins_[p] += begins_[p - 1];
    boundaries.push_back(begin + begins_[p]);
  }
  by_part_.resize(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    by_part_[static_cast<std::size_t>(begins_[static_cast<std::size_t>(part_of_[i])]++)] = samples[i];
  }
  std::copy(by_part_.begin(), by_part_.end(), samples.begin());
  return true;
}

std::int64_t most_rows(const PaddingOptions& padding, std::int64_t longest, const SampleUnits* units) {
  if (units == nullptr) return padding.rows(longest);
  return padding.pads() ? units->most_samples() * padding.rows(units->longest()) : units->most_tokens();
}

void pad(core::BatchPlan& plan, const PaddingOptions& padding) {
  if (!padding.pads()) return;
  for (int m = 0; m < plan.micro_batches(); ++m) {
    const auto first_chunk = static_cast<std::size_t>(plan.micro_begin[static_cast<std::size_t>(m)]);
    const std::span<core::PlannedSample> samples(plan.samples.begin() + plan.chunk_begin[first_chunk],
                                                 plan.micro_batch(m).size());
    std::int32_t longest = 0;
    for (const core::PlannedSample& sample : samples) longest = std::max(longest, sample.length);
    const auto rows = static_cast<std::int32_t>(padding.rows(longest));
    for (core::PlannedSample& sample : samples) sample.padding = rows - sample.length;
  }
}

core::BatchPlan plan_batch(std::span<const std::int64_t> samples, std::span<const std::int32_t> lengths,
                           const BatchPlanOptions& options, SampleUnits* units) {
  core::BatchPlan plan;
  BatchPlanner(options, units).plan(samples, lengths, plan);
  if (units != nullptr) units->expand(plan);
  pad(plan, options.padding);
  return plan;
}

}  // namespace bert_hpc::data
