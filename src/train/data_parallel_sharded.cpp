// ZeRO 2. Units are reduced in the order in which backward completes them, the same on every rank; a rank with fewer
// micro-batches contributes zeros to the remaining reductions.
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/flat.hpp"
#include "data_parallel_kinds.hpp"

namespace bert_hpc::train {
namespace {

/// Allocates memory in which the group's reductions are fastest.
std::span<float> allocate(comm::Communicator& group, std::int64_t elements) {
  if (elements == 0) return {};
  const std::span<std::byte> bytes =
      group.allocate(static_cast<std::size_t>(elements) * sizeof(float), comm::Sharing::exposed);
  return {reinterpret_cast<float*>(bytes.data()), static_cast<std::size_t>(elements)};
}

bool overlap(std::span<const float> a, std::span<const float> b) {
  return a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

}  // namespace

ShardedDataParallel::ShardedDataParallel(comm::Communicator& group, core::ParameterStore& parameters,
                                         const ShardPlan& plan, const NormScope& scope)
    : ShardedDataParallel(group, parameters, plan, scope, core::Buffer<float>(plan.trainable / plan.ranks)) {}

ShardedDataParallel::ShardedDataParallel(comm::Communicator& group, core::ParameterStore& parameters,
                                         const ShardPlan& plan, const NormScope& scope, core::Buffer<float> sums)
    : DataParallel(group, parameters, plan, scope, pieces_of(plan, group.rank(), parameters, sums.data())),
      accumulators_(std::move(sums)),
      pieces_(pieces_of(plan, group.rank(), parameters, accumulators_.data())),
      passes_(plan.settings.segments.size()),
      unit_gradients_(plan.units.size()),
      held_(allocate(group, plan.held)) {
  for (std::size_t s = 0; s < passes_.size(); ++s) {
    passes_[s].ring = allocate(group, plan.ring[s]);
    passes_[s].staged = core::Buffer<float>(plan.ring[s] / plan.ranks);
  }
  float* held = held_.data();
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    const ShardPlan::Unit& unit = plan.units[u];
    Pass& pass = passes_[static_cast<std::size_t>(unit.segment)];
    if (pass.end_unit == 0) pass.first_unit = u;
    pass.end_unit = u + 1;
    if (!unit.held) continue;
    const auto size = static_cast<std::size_t>(unit.end - unit.begin);
    unit_gradients_[u] = {held, size};
    parameters.assign_gradients(unit.begin, unit.end, held);
    held += size;
  }
  flights_.reserve(plan.buckets.size());
}

void ShardedDataParallel::begin_step(std::int64_t micro_batches, std::int64_t most) {
  rounds_ = most;
  core::require(passes_.size() == 1 || micro_batches == most,
                "sharded gradients: with several segments every rank needs the same number of micro-batches");
  squares_ = 0;
  if (!held_.empty()) ops::set_zero(held_);
  for (Pass& pass : passes_) {
    pass.round = 0;
    pass.unfinished = pass.end_unit;
    if (rounds_ > 0) assign_ring_memory(pass);
  }
}

/// Assigns ring memory to the unit whose gradients backward computes next.
void ShardedDataParallel::assign_ring_memory(Pass& pass) {
  if (pass.unfinished == pass.first_unit) return;
  const std::size_t u = pass.unfinished - 1;
  const ShardPlan::Unit& unit = plan_.units[u];
  if (unit.held) return;
  const std::int64_t size = unit.end - unit.begin;
  if (pass.at + size > static_cast<std::int64_t>(pass.ring.size())) pass.at = 0;
  unit_gradients_[u] = pass.ring.subspan(static_cast<std::size_t>(pass.at), static_cast<std::size_t>(size));
  pass.at += size;
  land_within(unit_gradients_[u]);
  ops::set_zero(unit_gradients_[u]);
  parameters_.assign_gradients(unit.begin, unit.end, unit_gradients_[u].data());
}

void ShardedDataParallel::finished(int segment, std::int64_t begin) {
  Pass& pass = passes_[static_cast<std::size_t>(segment)];
  while (pass.unfinished > pass.first_unit && plan_.units[pass.unfinished - 1].begin >= begin) {
    --pass.unfinished;
    const ShardPlan::Unit& unit = plan_.units[pass.unfinished];
    if (measures_ && pass.round == 0) add_squares(unit.begin, unit_gradients_[pass.unfinished]);
    if (!unit.held) reduce(pass, unit);
    assign_ring_memory(pass);
  }
  for (const Flight& flight : flights_) flight.request->progress();  // lets MPI move data between two layers
}

void ShardedDataParallel::reduce(Pass& pass, const ShardPlan::Unit& unit) {
  const std::span<float> gradients = unit_gradients_[static_cast<std::size_t>(&unit - plan_.units.data())];
  for (std::size_t b = unit.end_bucket; b-- > unit.first_bucket;) {
    const ShardPlan::Bucket& bucket = plan_.buckets[b];
    Flight flight;
    flight.bucket = b;
    flight.first = pass.round == 0;
    flight.data =
        gradients.subspan(static_cast<std::size_t>(bucket.begin - unit.begin), static_cast<std::size_t>(bucket.size));
    flight.staged = {pass.staged.data() + (flight.data.data() - pass.ring.data()) / plan_.ranks,
                     static_cast<std::size_t>(bucket.size / plan_.ranks)};
    flight.request = group_.start_reduce_scatter(flight.data, flight.staged);
    flights_.push_back(std::move(flight));
  }
}

void ShardedDataParallel::land(Flight& flight) {
  flight.request->wait();
  const OwnedRange& piece = pieces_[flight.bucket];
  const std::span<float> sums(piece.gradient, static_cast<std::size_t>(piece.size));
  if (flight.first) {
    ops::copy(flight.staged, sums);
  } else {
    ops::accumulate(flight.staged, sums);
  }
}

void ShardedDataParallel::land_within(std::span<const float> range) {
  for (std::size_t i = 0; i < flights_.size();) {
    if (overlap(flights_[i].data, range)) {
      land(flights_[i]);
      flights_.erase(flights_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

void ShardedDataParallel::end_micro_batch(int segment) {
  Pass& pass = passes_[static_cast<std::size_t>(segment)];
  if (pass.first_unit < pass.end_unit) finished(segment, plan_.units[pass.first_unit].begin);
  pass.unfinished = pass.end_unit;
  if (++pass.round < rounds_) assign_ring_memory(pass);
}

void ShardedDataParallel::end_step() {
  for (int s = 0; s < plan_.segments(); ++s) {
    while (passes_[static_cast<std::size_t>(s)].round < rounds_) end_micro_batch(s);
  }
  for (std::size_t u = 0; u < plan_.units.size(); ++u) {
    const ShardPlan::Unit& unit = plan_.units[u];
    for (std::size_t b = unit.first_bucket; unit.held && b < unit.end_bucket; ++b) {
      const ShardPlan::Bucket& bucket = plan_.buckets[b];
      requests_.push_back(
          group_.start_reduce_scatter(unit_gradients_[u].subspan(static_cast<std::size_t>(bucket.begin - unit.begin),
                                                                 static_cast<std::size_t>(bucket.size)),
                                      {pieces_[b].gradient, static_cast<std::size_t>(pieces_[b].size)}));
    }
  }
  for (Flight& flight : flights_) land(flight);
  flights_.clear();
  for (const auto& request : requests_) request->wait();
  requests_.clear();
  if (complete_) complete_(pieces_);
  report_summed();
}

}  // namespace bert_hpc::train
