#include "app/checkpoint/snapshot.hpp"

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/state_blocks.hpp"
#include "bert_hpc/ops/flat.hpp"

namespace bert_hpc::app {
namespace {

namespace blocks = core::state_blocks;
using io::QuantityForm;

template <class T>
std::span<T> part(std::span<T> all, std::int64_t first, std::int64_t count) {
  return all.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
}

/// The scales of elements [index, index + count) of codes are numbers [first, first + count) of all scales.
struct ScaleRange {
  ScaleRange(std::int64_t index, std::int64_t elements)
      : first(index / blocks::size), count(blocks::count(elements, index % blocks::size)) {}
  std::int64_t first, count;
};

}  // namespace

std::string codes_name(const ops::StateTensor& state) {
  return state.name + "_codes";
}
std::string scales_name(const ops::StateTensor& state) {
  return state.name + "_scales";
}

std::vector<io::QuantityKind> quantities_of(std::span<const ops::StateTensor> states) {
  std::vector<io::QuantityKind> kinds = {{io::parameters_name}};
  for (const ops::StateTensor& state : states) {
    kinds.push_back({state.name, state.in_blocks() ? QuantityForm::small_numbers : QuantityForm::numbers});
    if (!state.in_blocks()) continue;
    kinds.push_back({codes_name(state), QuantityForm::codes});
    kinds.push_back({scales_name(state), QuantityForm::scales});
  }
  return kinds;
}

Snapshot::Snapshot(std::span<const core::ArenaPiece> pieces, const core::ParameterStore& parameters,
                   const train::OptimizerStates& states)
    : pieces_(pieces), parameters_(parameters), states_(states), kinds_(quantities_of(states.kinds())) {
  std::int64_t numbers = 0, codes = 0, scales = 0;
  for (const core::ArenaPiece& piece : pieces) {
    const std::int64_t count = piece.piece.elements();
    elements_ += count;
    phases_.push_back(0);
    if (!has_states(piece)) continue;
    const auto position = states.position_of(piece.arena);
    if (!position.in_blocks) {
      numbers += count;
      continue;
    }
    phases_.back() = static_cast<std::uint8_t>(position.index % blocks::size);
    codes += count;
    scales += ScaleRange(position.index, count).count;
  }
  if (!ops::have_blocks(states.kinds())) phases_.clear();
  for (std::size_t q = 0; q < kinds_.size(); ++q) {
    const QuantityForm form = kinds_[q].form;
    const std::int64_t floats = q == 0                         ? elements_
                                : form == QuantityForm::scales ? scales
                                : form == QuantityForm::codes  ? 0
                                                               : numbers;
    contents_.push_back({core::Buffer<float>(floats, core::MemoryKind::host),
                         core::Buffer<std::uint8_t>(form == QuantityForm::codes ? codes : 0, core::MemoryKind::host)});
  }
}

void Snapshot::copy_floats(std::size_t quantity, std::span<const float> from, std::vector<std::int64_t>& next) {
  ops::copy_to_host(from, {contents_[quantity].numbers.data() + next[quantity], from.size()});
  next[quantity] += static_cast<std::int64_t>(from.size());
}

void Snapshot::copy_states(const core::ArenaPiece& piece, std::vector<std::int64_t>& next) {
  const auto [in_blocks, index] = states_.position_of(piece.arena);
  const std::int64_t count = piece.piece.elements();
  std::size_t quantity = 1;
  for (std::size_t s = 0; s < states_.kinds().size(); ++s) {
    if (!in_blocks) copy_floats(quantity, part(states_.numbers(s), index, count), next);
    ++quantity;
    if (!states_.kinds()[s].in_blocks()) continue;
    if (in_blocks) {
      core::copy_to_host(states_.codes(s).data() + index, contents_[quantity].codes.data() + next[quantity],
                         static_cast<std::size_t>(count));
      next[quantity] += count;
      const ScaleRange range(index, count);
      copy_floats(quantity + 1, part(states_.scales(s), range.first, range.count), next);
    }
    quantity += 2;
  }
}

void Snapshot::copy() {
  std::vector<std::int64_t> next(kinds_.size(), 0);
  for (const core::ArenaPiece& piece : pieces_) {
    copy_floats(0, part(parameters_.values(), piece.arena, piece.piece.elements()), next);
    if (has_states(piece)) copy_states(piece, next);
  }
}

std::vector<io::Quantity> Snapshot::quantities() const {
  std::vector<io::Quantity> all;
  for (std::size_t q = 0; q < kinds_.size(); ++q) {
    const auto& [numbers, codes] = contents_[q];
    all.push_back({kinds_[q].name,
                   {numbers.data(), static_cast<std::size_t>(numbers.size())},
                   {codes.data(), static_cast<std::size_t>(codes.size())}});
  }
  if (!phases_.empty()) all.push_back({io::phases_name, {}, phases_});
  return all;
}

}  // namespace bert_hpc::app
