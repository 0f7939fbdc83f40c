// What is wrong with the settings of a batch, and what no plan of them exceeds.
#include <algorithm>
#include <bit>
#include <string>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/batch_plan.hpp"
#include "part_limits.hpp"

namespace bert_hpc::data {
namespace {

using std::to_string;

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

}  // namespace bert_hpc::data
