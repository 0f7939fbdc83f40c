#include "bert_hpc/core/tensor_piece.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::core {
namespace {

/// Calls visit(slice, number, begin, end) for every overlap of a slice with a range; begin and end count within the
/// slice.
template <class Visit>
void visit_overlaps(const std::vector<ParameterSlice>& slices, std::span<const ArenaRange> ranges, const Visit& visit) {
  for (const ArenaRange& range : ranges) {
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const std::int64_t begin = std::max(range.begin, slices[i].offset);
      const std::int64_t end = std::min(range.begin + range.size, slices[i].offset + slices[i].size);
      if (begin < end) visit(slices[i], i, begin - slices[i].offset, end - slices[i].offset);
    }
  }
}

class TensorNumbers {
 public:
  explicit TensorNumbers(std::span<const WholeTensor> tensors) : tensors_(tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i) numbers_[tensors[i].name] = static_cast<std::int64_t>(i);
  }
  std::int64_t operator()(const ParameterSlice& slice) const {
    const std::string& name = slice.copy_of.empty() ? slice.name : slice.copy_of;
    const auto found = numbers_.find(name);
    require(found != numbers_.end(), "checkpoint: the model has no parameter of a slice's name");
    require(elements_of(tensors_[static_cast<std::size_t>(found->second)].shape) ==
                elements_of(whole_shape(slice.shape, slice.shard)),
            "checkpoint: a slice does not fit the model's parameter of that name");
    return found->second;
  }

 private:
  std::span<const WholeTensor> tensors_;
  std::map<std::string, std::int64_t> numbers_;
};

/// Rows [top, bottom) × columns [left, right) of a tensor whose rows have a given number of elements.
struct Rectangle {
  std::int64_t top, bottom, left, right;
};

/// The elements [begin, end) as at most three rectangles.
void add_interval(std::int64_t begin, std::int64_t end, std::int64_t row, std::vector<Rectangle>& to) {
  while (begin < end) {
    const std::int64_t top = begin / row, left = begin % row;
    const std::int64_t rows = left == 0 ? std::max<std::int64_t>(1, (end - begin) / row) : 1;
    const std::int64_t right = std::min(row, left + end - begin);
    to.push_back({top, top + rows, left, right});
    begin += (rows - 1) * row + right - left;
  }
}

/// Sweep-line algorithm (Shamos and Hoey 1976): a line moves over the rows and keeps the occupied column intervals of
/// its row. O(n·log n) for n rectangles.
bool are_disjoint(std::span<const Rectangle> rectangles) {
  struct Event {
    std::int64_t row;
    bool begins;  // in a row, ends are processed before begins
    const Rectangle* rectangle;
    auto key() const { return std::pair(row, begins); }
  };
  std::vector<Event> events;
  for (const Rectangle& r : rectangles) {
    events.push_back({r.top, true, &r});
    events.push_back({r.bottom, false, &r});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.key() < b.key(); });
  std::map<std::int64_t, std::int64_t> taken;  // left → right
  for (const Event& event : events) {
    const Rectangle& r = *event.rectangle;
    if (!event.begins) {
      taken.erase(r.left);
      continue;
    }
    const auto next = taken.lower_bound(r.left);
    if (next != taken.end() && next->first < r.right) return false;
    if (next != taken.begin() && std::prev(next)->second > r.left) return false;
    taken.emplace_hint(next, r.left, r.right);
  }
  return true;
}

}  // namespace

bool cover_once(std::int64_t elements, std::span<const TensorPiece> pieces) {
  std::int64_t row = elements, missing = elements;
  for (const TensorPiece& piece : pieces) {
    if (piece.count > 1) row = piece.stride;
  }
  std::vector<Rectangle> rectangles;
  for (const TensorPiece& piece : pieces) {
    missing -= piece.elements();
    if (missing < 0 || (piece.count > 1 && piece.stride != row)) return false;
    const std::int64_t left = piece.first % row, top = piece.first / row;
    if (piece.count == 1) {
      add_interval(piece.first, piece.first + piece.length, row, rectangles);
    } else if (left + piece.length <= row) {
      rectangles.push_back({top, top + piece.count, left, left + piece.length});
    } else {  // each run ends in the row after its first row
      rectangles.push_back({top, top + piece.count, left, row});
      rectangles.push_back({top + 1, top + 1 + piece.count, 0, left + piece.length - row});
    }
  }
  return missing == 0 && are_disjoint(rectangles);
}

std::vector<ArenaPiece> pieces_of(const ParameterSlice& slice, std::int64_t tensor, std::int64_t begin,
                                  std::int64_t end) {
  const ShardRuns runs = runs_of(slice.shape, slice.shard);
  std::vector<ArenaPiece> pieces;
  const auto add = [&](std::int64_t from, std::int64_t length, std::int64_t count) {
    pieces.push_back(
        {{tensor, runs.index(from), length, count, count == 1 ? length : runs.stride}, slice.offset + from});
  };
  if (begin % runs.length != 0) {  // the remainder of a run
    const std::int64_t run_end = std::min(end, (begin / runs.length + 1) * runs.length);
    add(begin, run_end - begin, 1);
    begin = run_end;
  }
  const std::int64_t whole = (end - begin) / runs.length;
  if (whole > 0) add(begin, runs.length, whole);
  begin += whole * runs.length;
  if (begin < end) add(begin, end - begin, 1);
  return pieces;
}

std::vector<ArenaPiece> pieces_to_save(const std::vector<ParameterSlice>& slices, std::span<const WholeTensor> tensors,
                                       std::span<const ArenaRange> ranges, int tensor_rank, int tensor_ranks) {
  const TensorNumbers number(tensors);
  std::vector<ArenaPiece> all;
  visit_overlaps(slices, ranges, [&](const ParameterSlice& slice, std::size_t i, std::int64_t begin, std::int64_t end) {
    if (!slice.copy_of.empty()) return;
    if (slice.shard.is_whole() && static_cast<int>(i % static_cast<std::size_t>(tensor_ranks)) != tensor_rank) return;
    for (const ArenaPiece& piece : pieces_of(slice, number(slice), begin, end)) all.push_back(piece);
  });
  return all;
}

std::vector<WantedPart> parts_to_load(const std::vector<ParameterSlice>& slices, std::span<const WholeTensor> tensors,
                                      std::span<const ArenaRange> ranges) {
  const TensorNumbers number(tensors);
  std::vector<WantedPart> all;
  visit_overlaps(slices, ranges, [&](const ParameterSlice& slice, std::size_t, std::int64_t begin, std::int64_t end) {
    WantedPart part{.tensor = number(slice), .pieces = pieces_of(slice, number(slice), begin, end)};
    part.first = part.pieces.front().piece.first;
    const TensorPiece& back = part.pieces.back().piece;
    part.last = back.first + (back.count - 1) * back.stride + back.length;
    all.push_back(std::move(part));
  });
  return all;
}

}  // namespace bert_hpc::core
