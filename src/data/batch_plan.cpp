// The cut of a global batch. Integers only, so that every rank and compiler computes the same plan.
#include "bert_hpc/data/batch_plan.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <tuple>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::data {
namespace {

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

std::string text(std::int64_t value) {
  return std::to_string(value);
}

void check_chunks(const BatchPlanOptions& o, std::int64_t max_length, core::ProblemList& problems) {
  if (o.chunks < o.replicas) {
    problems.add("batch.chunks = " + text(o.chunks) + " is less than the " + text(o.replicas) +
                 " replicas of the layout; set it to at least " + text(o.replicas) + ".");
  } else if (o.reproducible &&
             (!std::has_single_bit(static_cast<unsigned>(o.replicas)) || o.chunks % o.replicas != 0)) {
    problems.add("run.reproducible needs a power of two of replicas that divides batch.chunks = " + text(o.chunks) +
                 ", not " + text(o.replicas) + " replicas.");
  }
  const std::int64_t nominal = ceil_divide(o.global_batch, o.chunks);
  const std::int64_t tokens = token_limit(o.global_batch, o.chunks, max_length);
  if (o.micro_tokens > 0 && o.micro_tokens < tokens) {
    problems.add("batch.micro_tokens = " + text(o.micro_tokens) + " is less than a chunk may hold (" + text(nominal) +
                 " sequences of up to " + text(max_length) + " tokens); raise it to " + text(tokens) +
                 ", or raise batch.chunks above " + text(o.chunks) + ".");
  }
  if (o.micro_sequences > 0 && o.micro_sequences < nominal) {
    problems.add("batch.micro = " + text(o.micro_sequences) + " is less than a chunk (" + text(nominal) +
                 " sequences); raise it, or raise batch.chunks above " + text(o.chunks) + ".");
  }
  if (o.micro_batches > 0 && o.micro_batches > o.chunks / std::max(o.replicas, 1)) {
    problems.add("batch.micro_batches = " + text(o.micro_batches) + " is more than the chunks of a replica (" +
                 text(o.chunks / std::max(o.replicas, 1)) + "); lower it, or raise batch.chunks.");
  }
}

}  // namespace

void check(const BatchPlanOptions& o, std::int64_t max_length) {
  core::require(o.replicas >= 1 && o.hidden >= 1 && max_length >= 1, "batch plan: layout and lengths are positive");
  core::ProblemList problems;
  if (o.global_batch < 1 || o.global_batch > (std::int64_t{1} << 30)) {
    problems.add("batch.global = " + text(o.global_batch) + " must lie between 1 and 2^30 sequences.");
  }
  if (o.global_batch < o.replicas) {
    problems.add("batch.global = " + text(o.global_batch) + " is less than the " + text(o.replicas) +
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
    problems.add("batch.micro_tokens = " + text(o.micro_tokens) + " is less than the longest sequence of the data (" +
                 text(max_length) + " tokens); set it to at least that.");
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
    b.micro_tokens = even_limit(b.replica_tokens, std::max(o.micro_batches, std::int64_t{1}), max_length);
    b.replica_micro_batches = std::max(o.micro_batches, std::int64_t{1});
    if (o.micro_tokens > 0) {
      b.micro_tokens = std::min(b.replica_tokens, o.micro_tokens);
      // Two neighbouring micro-batches hold more than micro_tokens together, else they would have been one.
      b.replica_micro_batches = 2 * (b.replica_tokens / o.micro_tokens) + 1;
    } else if (o.micro_sequences > 0) {
      b.micro_tokens = std::min(b.replica_tokens, o.micro_sequences * max_length);
      b.replica_micro_batches = ceil_divide(o.global_batch, o.micro_sequences);
    }
  }
  b.replica_tokens = std::min(b.replica_tokens, o.global_batch * max_length);
  b.micro_tokens = std::min(b.micro_tokens, b.replica_tokens);
  b.replica_sequences = std::min(o.global_batch, b.replica_tokens);
  b.micro_sequences = std::min(o.global_batch, b.micro_tokens);
  if (o.chunks == 0 && o.micro_sequences > 0) b.micro_sequences = std::min(b.micro_sequences, o.micro_sequences);
  return b;
}

void BatchPlanner::reserve(std::int64_t most_samples, std::int64_t max_length, core::BatchPlan& plan) {
  const auto samples = static_cast<std::size_t>(std::min(most_samples, options_.global_batch));
  const auto replicas = static_cast<std::size_t>(options_.replicas);
  const auto parts =
      replicas * static_cast<std::size_t>(bounds(options_, max_length).replica_micro_batches) + replicas + 1;
  plan.samples.reserve(samples);
  work_.reserve(samples + 1);
  tokens_.reserve(samples + 1);
  earliest_.reserve(parts + static_cast<std::size_t>(options_.chunks));
  replicas_.reserve(replicas + 1);
  plan.chunk_begin.reserve(parts + static_cast<std::size_t>(options_.chunks));
  plan.micro_begin.reserve(parts);
  plan.replica_begin.reserve(replicas + 1);
}

void BatchPlanner::plan(std::span<const std::int64_t> samples, std::span<const std::int32_t> lengths,
                        core::BatchPlan& plan) {
  core::require(samples.size() == lengths.size() && static_cast<std::int64_t>(samples.size()) <= options_.global_batch,
                "batch plan: one length a sample, at most batch.global samples");
  order(samples, lengths, plan);
  plan.chunk_begin.assign(1, 0);
  plan.micro_begin.assign(1, 0);
  plan.replica_begin.assign(1, 0);
  if (options_.chunks > 0) {
    plan_chunks(plan);
  } else {
    plan_layout(plan);
  }
}

void BatchPlanner::order(std::span<const std::int64_t> samples, std::span<const std::int32_t> lengths,
                         core::BatchPlan& plan) {
  plan.samples.resize(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) plan.samples[i] = {samples[i], lengths[i]};
  std::sort(plan.samples.begin(), plan.samples.end(),
            [](const auto& a, const auto& b) { return std::tie(a.length, a.index) < std::tie(b.length, b.index); });
  work_.resize(samples.size() + 1);
  tokens_.resize(samples.size() + 1);
  work_[0] = tokens_[0] = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::int64_t length = plan.samples[i].length;
    work_[i + 1] = work_[i] + length * (6 * options_.hidden + length);
    tokens_[i + 1] = tokens_[i] + length;
  }
}

/// Chunks first, from the batch alone; replicas and micro-batches are whole chunks.
void BatchPlanner::plan_chunks(core::BatchPlan& plan) {
  const BatchPlanOptions& o = options_;
  const std::int64_t sequences = plan.sequences();
  const std::int64_t longest = plan.samples.empty() ? 1 : plan.samples.back().length;
  cut(0, static_cast<std::int32_t>(sequences), o.chunks, Measure::tokens, token_limit(sequences, o.chunks, longest),
      plan.chunk_begin);
  const auto tokens_of = [&](int first, int last) {
    return tokens_[static_cast<std::size_t>(plan.chunk_begin[static_cast<std::size_t>(last)])] -
           tokens_[static_cast<std::size_t>(plan.chunk_begin[static_cast<std::size_t>(first)])];
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

/// Replicas first, balanced in work; then each into as few micro-batches as its limit allows; a chunk each.
void BatchPlanner::plan_layout(core::BatchPlan& plan) {
  const BatchPlanOptions& o = options_;
  const std::int64_t sequences = plan.sequences();
  const std::int64_t longest = plan.samples.empty() ? 1 : plan.samples.back().length;
  replicas_.assign(1, 0);
  cut(0, static_cast<std::int32_t>(sequences), o.replicas, Measure::tokens, token_limit(sequences, o.replicas, longest),
      replicas_);
  for (std::size_t r = 0; r < static_cast<std::size_t>(o.replicas); ++r) {
    const std::int32_t begin = replicas_[r], end = replicas_[r + 1];
    Measure what = Measure::tokens;
    std::int64_t parts = std::max(o.micro_batches, std::int64_t{1});
    std::int64_t limit = even_limit(measure(what, end) - measure(what, begin), parts, longest);
    if (o.micro_tokens > 0 || o.micro_sequences > 0) {
      if (o.micro_sequences > 0) what = Measure::sequences;
      limit = std::max(o.micro_tokens, o.micro_sequences);
      parts = parts_needed(begin, end, what, limit);
    }
    cut(begin, end, parts, what, limit, plan.chunk_begin);
    for (std::int64_t m = 0; m < parts; ++m) plan.micro_begin.push_back(plan.micro_begin.back() + 1);
    plan.replica_begin.push_back(static_cast<std::int32_t>(plan.micro_begin.size()) - 1);
  }
}

std::int64_t BatchPlanner::measure(Measure what, std::int32_t i) const {
  return what == Measure::tokens ? tokens_[static_cast<std::size_t>(i)] : i;
}

/// The furthest end, up to `end`, of a part that begins at `begin` and stays within the limit.
std::int32_t BatchPlanner::reach(std::int32_t begin, std::int32_t end, Measure what, std::int64_t limit) const {
  const std::int64_t most = measure(what, begin) + limit;
  if (what == Measure::sequences) return static_cast<std::int32_t>(std::min<std::int64_t>(most, end));
  const auto last = std::upper_bound(tokens_.begin() + begin, tokens_.begin() + end + 1, most);
  return static_cast<std::int32_t>(last - tokens_.begin()) - 1;
}

std::int64_t BatchPlanner::parts_needed(std::int32_t begin, std::int32_t end, Measure what, std::int64_t limit) const {
  std::int64_t parts = 0;
  while (begin < end) {
    const std::int32_t next = reach(begin, end, what, limit);
    core::require(next > begin, "batch plan: a sequence is longer than batch.micro_tokens");
    begin = next;
    ++parts;
  }
  return std::max(parts, std::int64_t{1});
}

/// Appends the ends of `parts` contiguous parts of samples [begin, end), each within the limit. Boundary c is the one
/// nearest to c / parts of the work, but late enough for the rest to fit into the parts behind it, and early enough for
/// its own part's limit.
void BatchPlanner::cut(std::int32_t begin, std::int32_t end, std::int64_t parts, Measure what, std::int64_t limit,
                       std::vector<std::int32_t>& boundaries) {
  earliest_.resize(static_cast<std::size_t>(parts) + 1);
  std::int32_t earliest = end;
  for (std::size_t c = static_cast<std::size_t>(parts); c-- > 0;) {
    earliest_[c + 1] = earliest;
    while (earliest > begin && measure(what, earliest_[c + 1]) - measure(what, earliest - 1) <= limit) --earliest;
  }
  core::require(earliest <= begin, "batch plan: the parts cannot hold the batch");

  const std::int64_t before = work_[static_cast<std::size_t>(begin)];
  const std::int64_t total = work_[static_cast<std::size_t>(end)] - before;
  std::int32_t previous = begin;
  for (std::int64_t c = 1; c < parts; ++c) {
    // Compared times `parts`, so that the share c / parts stays an integer.
    const auto nearest =
        std::lower_bound(work_.begin() + previous, work_.begin() + end, total * c,
                         [&](std::int64_t work, std::int64_t share) { return (work - before) * parts < share; });
    auto boundary = static_cast<std::int32_t>(nearest - work_.begin());
    if (boundary > previous) {
      const std::int64_t above = (work_[static_cast<std::size_t>(boundary)] - before) * parts - total * c;
      const std::int64_t below = total * c - (work_[static_cast<std::size_t>(boundary) - 1] - before) * parts;
      if (below <= above) --boundary;
    }
    boundary = std::max(boundary, earliest_[static_cast<std::size_t>(c)]);
    boundary = std::min(boundary, reach(previous, end, what, limit));
    boundaries.push_back(boundary);
    previous = boundary;
  }
  boundaries.push_back(end);
}

core::BatchPlan plan_batch(std::span<const std::int64_t> samples, std::span<const std::int32_t> lengths,
                           const BatchPlanOptions& options) {
  core::BatchPlan plan;
  BatchPlanner(options).plan(samples, lengths, plan);
  return plan;
}

}  // namespace bert_hpc::data
