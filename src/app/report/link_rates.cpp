#include "app/report/link_rates.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "app/report/compute_rates.hpp"
#include "app/run/collective.hpp"
#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/io/atomic_write.hpp"

namespace bert_hpc::app {
namespace {

constexpr double budget = 0.4, micro = 1e-6;             // seconds
constexpr std::int64_t message = std::int64_t{1} << 20;  // floats: like the activations of some thousand tokens
constexpr std::size_t collective_bytes = std::size_t{8} << 20;
constexpr int rounds_of_latency = 50;

/// Seconds of one message of this size while every rank sends to the next and receives from the previous one.
double message_seconds(comm::Communicator& group, std::span<const float> send, std::span<float> receive) {
  const int next = (group.rank() + 1) % group.size(), before = (group.rank() + group.size() - 1) % group.size();
  return seconds_of([&] {
    const comm::RequestHandle coming = group.start_receive(receive, before);
    const comm::RequestHandle going = group.start_send(send, next);
    coming->wait();
    going->wait();
  });
}

/// Collective over a group whose ranks share one kind of link; all groups of the world measure at the same time.
config::LinkFile link_of(comm::Communicator& world, comm::Communicator& group) {
  group.reserve_messages(message * static_cast<std::int64_t>(sizeof(float)));
  core::Buffer<float> from(message), to(message);
  const auto size = static_cast<std::size_t>(message);
  const double latency = shared_seconds(world, budget, [&] {
    double sum = 0;
    for (int i = 0; i < rounds_of_latency; ++i) sum += message_seconds(group, {from.data(), 1}, {to.data(), 1});
    return sum / rounds_of_latency;
  });
  const double time = shared_seconds(world, budget, [&] {
    return message_seconds(group, {from.data(), size}, {to.data(), size});
  });
  const double ranks = group.size(), ring = static_cast<double>(collective_bytes) * (ranks - 1) / ranks;
  const auto floats = [](std::span<std::byte> bytes) {
    return std::span(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
  };
  const std::size_t unit = 64 * static_cast<std::size_t>(group.size());
  const std::size_t bytes = collective_bytes / unit * unit;
  const std::span<float> sums = floats(group.allocate(bytes, comm::Sharing::exposed));
  const std::span<float> parts = floats(group.allocate(bytes, comm::Sharing::replicated));
  const std::span<float> mine(to.data(), sums.size() / static_cast<std::size_t>(group.size()));
  group.reserve_sums(static_cast<std::int64_t>(mine.size()));
  const double reduce = shared_seconds(
      world, budget, [&] { return seconds_of([&] { group.start_reduce_scatter(sums, mine)->wait(); }); });
  const double gather =
      shared_seconds(world, budget, [&] { return seconds_of([&] { group.start_all_gather(parts)->wait(); }); });
  // Subtract the latency of the ring's steps, and limit the rate to a hundred times that of messages.
  const double rounds = (ranks - 1) * latency, rate = static_cast<double>(message * sizeof(float)) / time;
  const auto bandwidth = [&](double seconds) { return ring / std::max(seconds - rounds, ring / rate / 100); };
  return {.gb_per_second = rate / 1e9,
          .latency_us = latency / micro,
          .reduce_gb_per_second = bandwidth(reduce) / 1e9,
          .gather_gb_per_second = bandwidth(gather) / 1e9};
}

}  // namespace

NodeLayout node_layout(const std::vector<std::string>& hosts) {
  NodeLayout layout;
  std::map<std::string, int> numbers;
  std::vector<int> ranks;
  for (const std::string& host : hosts) {
    const int node = numbers.emplace(host, static_cast<int>(numbers.size())).first->second;
    if (static_cast<std::size_t>(node) == ranks.size()) ranks.push_back(0);
    layout.node.push_back(node);
    layout.rank_on_node.push_back(ranks[static_cast<std::size_t>(node)]++);
  }
  layout.nodes = static_cast<int>(ranks.size());
  layout.max_ranks = ranks.empty() ? 0 : *std::max_element(ranks.begin(), ranks.end());
  return layout;
}

void measure_links(comm::Communicator& world, const NodeLayout& layout, config::MachineFile& file) {
  const auto rank = static_cast<std::size_t>(world.rank());
  const bool several = *std::min_element(layout.node.begin(), layout.node.end()) >= 0 && layout.max_ranks > 1;
  // Only nodes with equal numbers of ranks give equal groups in which every rank takes part.
  const bool even = world.size() == layout.nodes * layout.max_ranks;
  if (several && even) {
    const auto node = world.split(layout.node[rank], world.rank());
    file.in_node = link_of(world, *node);
  }
  if (layout.nodes > 1 && even) {
    const auto across = world.split(layout.rank_on_node[rank], world.rank());
    file.between_nodes = link_of(world, *across);
  }
}

double storage_rate(comm::Communicator& world, const std::string& path) {
  const std::vector<std::byte> content(std::size_t{32} << 20, std::byte{1});
  const std::string own = path + ".rank-" + std::to_string(world.rank());
  double seconds = 0;
  world.barrier();
  collectively(world, [&] {
    seconds = seconds_of([&] { io::write_file(own, content); });
    ::unlink(own.c_str());
  });
  return static_cast<double>(content.size()) * world.size() / world.maximum(seconds);
}

}  // namespace bert_hpc::app
