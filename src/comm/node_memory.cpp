#include "node_memory.hpp"

#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "check_mpi.hpp"
#include "node_mapping.hpp"

namespace bert_hpc::comm {

namespace {

constexpr std::size_t max_pending = 4096;  // operations in progress at once

bool everywhere(bool holds, MPI_Comm group) {
  int verdict = holds ? 1 : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &verdict, 1, MPI_INT, MPI_MIN, group), "MPI_Allreduce");
  return verdict != 0;
}

/// Calls body(i) for i in [0, count) on all threads. A team of one thread would only cost an allocation.
template <class Body>
void for_each(std::int64_t count, const Body& body) {
  if (omp_get_max_threads() == 1) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
    return;
  }
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < count; ++i) body(i);
}

}  // namespace

class NodeRequest : public Request {
 public:
  NodeRequest(NodeMemory& memory, std::uint64_t operation) : memory_(memory), operation_(operation) {}
  ~NodeRequest() override {
    if (!fails_alone()) NodeRequest::wait();
  }
  NodeRequest(const NodeRequest&) = delete;
  NodeRequest& operator=(const NodeRequest&) = delete;
  bool test() override { return memory_.finished(operation_); }
  void wait() override {
    for (int spins = 1; !memory_.finished(operation_); ++spins) memory_.breathe(spins);
  }

 private:
  NodeMemory& memory_;
  std::uint64_t operation_;
};

NodeMemory::NodeMemory(MPI_Comm group, int rank, int size) : group_(group), rank_(rank), size_(size) {}
NodeMemory::~NodeMemory() = default;

std::unique_ptr<NodeMemory> NodeMemory::make(MPI_Comm group) {
  int rank = 0, size = 1, neighbours = 1;
  check_mpi(MPI_Comm_rank(group, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(group, &size), "MPI_Comm_size");
  if (size == 1 || size > largest_group) return nullptr;
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(group, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  check_mpi(MPI_Comm_size(node, &neighbours), "MPI_Comm_size");
  MPI_Comm_free(&node);
  if (!everywhere(neighbours == size, group)) return nullptr;

  std::unique_ptr<NodeMemory> memory(new NodeMemory(group, rank, size));
  const std::span<std::byte> block =
      memory->allocate(sizeof(Progress) * static_cast<std::size_t>(size), Sharing::replicated);
  if (block.empty()) return nullptr;
  memory->progress_ = reinterpret_cast<Progress*>(block.data());
  new (memory->progress_ + rank) Progress{};
  memory->pending_.resize(max_pending);
  check_mpi(MPI_Barrier(group), "MPI_Barrier");
  return memory;
}

std::span<std::byte> NodeMemory::allocate(std::size_t bytes, Sharing sharing) {
  if (bytes == 0) return {};
  const bool creates = sharing == Sharing::exposed || rank_ == 0;
  core::Descriptor file;
  if (creates) {
    file = core::Descriptor(memfd_create("bert_hpc", MFD_CLOEXEC));
    const std::size_t whole = (bytes + huge_page - 1) / huge_page * huge_page;
    if (file.valid() && ftruncate(file.get(), static_cast<off_t>(whole)) != 0) file.reset();
  }
  if (!everywhere(!creates || file.valid(), group_)) return {};

  const FileAddress mine = address_of(file.get());
  std::vector<FileAddress> addresses(static_cast<std::size_t>(size_));
  check_mpi(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, addresses.data(), sizeof mine, MPI_BYTE, group_),
            "MPI_Allgather");
  Region region{.bytes = bytes, .sharing = sharing, .ranks = {}};
  bool mapped = true;
  for (int r = 0; mapped && r < size_; ++r) {
    if (sharing == Sharing::replicated && r > 0) {
      region.ranks.push_back(region.ranks[0]);
      continue;
    }
    core::Descriptor theirs;
    if (r != rank_) theirs = open_at(addresses[static_cast<std::size_t>(r)]);
    const int number = r == rank_ ? file.get() : theirs.get();
    region.ranks.push_back(number < 0 ? nullptr : std::make_shared<Mapping>(number, bytes));
    mapped = number >= 0 && region.ranks.back()->begin() != nullptr;
  }
  if (!everywhere(mapped, group_)) return {};

  const Mapping& own = *region.ranks[static_cast<std::size_t>(rank_)];
  if (sharing == Sharing::exposed) {
    own.make_pages(0, own.bytes());
  } else {
    const auto part = [&](int r) {
      return own.bytes() / huge_page * static_cast<std::size_t>(r) / static_cast<std::size_t>(size_) * huge_page;
    };
    own.make_pages(part(rank_), part(rank_ + 1));
  }
  check_mpi(MPI_Barrier(group_), "MPI_Barrier");  // all pages are allocated
  for (int r = 0; r < size_; ++r) {
    if (r == 0 || sharing == Sharing::exposed) region.ranks[static_cast<std::size_t>(r)]->map_huge_pages();
  }
  check_mpi(MPI_Barrier(group_), "MPI_Barrier");
  regions_.push_back(std::move(region));
  return {regions_.back().ranks[static_cast<std::size_t>(rank_)]->begin(), bytes};
}

const NodeMemory::Region* NodeMemory::find(const void* begin, std::size_t bytes) const {
  const auto* first = static_cast<const std::byte*>(begin);
  for (const Region& region : regions_) {
    const std::byte* base = region.ranks[static_cast<std::size_t>(rank_)]->begin();
    if (first >= base && first + bytes <= base + region.bytes) return &region;
  }
  return nullptr;
}

bool NodeMemory::is_replicated(const void* begin, std::size_t bytes) const {
  const Region* region = find(begin, bytes);
  return region != nullptr && region->sharing == Sharing::replicated;
}

const std::byte* NodeMemory::base(const Region& region, int rank) const {
  return region.ranks[static_cast<std::size_t>(rank)]->begin();
}

std::byte* NodeMemory::of_rank(const std::byte* mine, int rank) const {
  const Region* region = find(mine, 1);
  core::require(region != nullptr, "this is not memory of the group");
  return region->ranks[static_cast<std::size_t>(rank)]->begin() + offset_in(*region, mine);
}

std::size_t NodeMemory::offset_in(const Region& region, const void* pointer) const {
  return static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - base(region, rank_));
}

RequestHandle NodeMemory::start_reduce_scatter(std::span<const float> data, std::span<float> mine) {
  return start_reduce_scatter(data, mine, {});
}

RequestHandle NodeMemory::start_reduce_scatter(std::span<const float> data, std::span<float> mine,
                                               const ZeroLines& zeros) {
  Operation operation;
  operation.region = find(data.data(), data.size_bytes());
  operation.mine = mine;
  if (operation.region == nullptr || operation.region->sharing != Sharing::exposed) return nullptr;
  operation.offset = offset_in(*operation.region, data.data());
  if (zeros.data != nullptr) {
    operation.marks_region = find(zeros.data, data.size() / ZeroLines::line);
    if (operation.marks_region == nullptr) return nullptr;
    operation.marks_offset = offset_in(*operation.marks_region, zeros.data);
    operation.mine_marks = zeros.mine;
  }
  return start(operation);
}

RequestHandle NodeMemory::start_all_gather(std::span<float> data) {
  Operation operation;
  operation.region = find(data.data(), data.size_bytes());
  if (operation.region == nullptr) return nullptr;
  operation.offset = offset_in(*operation.region, data.data());
  operation.data = data;
  return start(operation);
}

RequestHandle NodeMemory::start(const Operation& operation) {
  core::require(started_ - done_ < pending_.size(), "more than 4096 operations of a group are under way");
  ++started_;
  pending_[started_ % pending_.size()] = operation;
  progress_[rank_].arrived.store(started_, std::memory_order_release);
  return requests_.make(*this, started_);
}

bool NodeMemory::all_reached(std::atomic<std::uint64_t> Progress::*what, std::uint64_t operation) const {
  return std::all_of(progress_, progress_ + size_,
                     [&](const Progress& p) { return (p.*what).load(std::memory_order_acquire) >= operation; });
}

void NodeMemory::progress() {
  while (done_ < started_ && all_reached(&Progress::arrived, done_ + 1)) {
    perform(pending_[(done_ + 1) % pending_.size()]);
    ++done_;
    progress_[rank_].read.store(done_, std::memory_order_release);
  }
}

void NodeMemory::catch_up() {
  progress();
  for (int spins = 1; pending(); ++spins) {
    breathe(spins);
    progress();
  }
}

// If ranks outnumber cores, the awaited rank needs this core. It may also be sending to this rank, which requires this
// rank's MPI to make progress.
void NodeMemory::breathe(int spins) const {
  if (spins > 200) sched_yield();
  int arrived = 0;
  if (spins % 100 == 0) MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, group_, &arrived, MPI_STATUS_IGNORE);
}

bool NodeMemory::finished(std::uint64_t operation) {
  progress();
  return done_ >= operation && all_reached(&Progress::read, operation);
}

void NodeMemory::perform(const Operation& operation) const {
  if (operation.marks_region != nullptr) {
    sum_lines(operation);
  } else if (!operation.mine.empty()) {
    sum(operation);
  } else if (operation.region->sharing == Sharing::exposed) {
    gather(operation);
  }
}

// mine = Σ over ranks, in rank order, of piece rank() of their data
void NodeMemory::sum(const Operation& operation) const {
  const std::size_t begin = operation.offset + operation.mine.size_bytes() * static_cast<std::size_t>(rank_);
  const auto piece = [&](int r) { return reinterpret_cast<const float*>(base(*operation.region, r) + begin); };
  float* const mine = operation.mine.data();
  const auto count = static_cast<std::int64_t>(operation.mine.size());
  constexpr std::int64_t block = 4096;  // floats: the running sum stays in the first-level cache
  for_each((count + block - 1) / block, [&](std::int64_t part) {
    const std::int64_t first = part * block, last = std::min(first + block, count);
    const float *a = piece(0), *b = piece(1);
#pragma omp simd
    for (std::int64_t i = first; i < last; ++i) mine[i] = a[i] + b[i];
    for (int r = 2; r < size_; ++r) {
      const float* other = piece(r);
#pragma omp simd
      for (std::int64_t i = first; i < last; ++i) mine[i] += other[i];
    }
  });
}

// As above, for the lines that at least one rank has marked.
void NodeMemory::sum_lines(const Operation& operation) const {
  constexpr std::size_t line = ZeroLines::line;
  const std::size_t first = operation.mine.size() * static_cast<std::size_t>(rank_);  // of the piece, in the data
  const auto lines = static_cast<std::int64_t>(operation.mine.size() / line);
  float* const mine = operation.mine.data();
  for_each(lines, [&](std::int64_t l) {
    const auto begin = static_cast<std::size_t>(l) * line;
    float total[line] = {};
    bool marked = false;
    for (int r = 0; r < size_; ++r) {
      const auto* marks = reinterpret_cast<const std::uint8_t*>(base(*operation.marks_region, r)) +
                          operation.marks_offset + first / line;
      if (marks[l] == 0) continue;
      const float* data = reinterpret_cast<const float*>(base(*operation.region, r) + operation.offset) + first + begin;
      for (std::size_t i = 0; i < line; ++i) total[i] += data[i];
      marked = true;
    }
    if (!marked && operation.mine_marks[l] == 0) return;
    std::copy_n(total, line, mine + begin);
    operation.mine_marks[l] = marked ? 1 : 0;
  });
}

void NodeMemory::gather(const Operation& operation) const {
  const std::size_t piece = operation.data.size_bytes() / static_cast<std::size_t>(size_);
  auto* const destination = reinterpret_cast<std::byte*>(operation.data.data());
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    const std::size_t begin = piece * static_cast<std::size_t>(r);
    std::memcpy(destination + begin, base(*operation.region, r) + operation.offset + begin, piece);
  }
}

}  // namespace bert_hpc::comm
